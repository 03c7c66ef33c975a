// Laws of operators on a queue that runs behind its host: value, gradients and copies on ranks, with NaN in the
// padding. What an operator read or wrote beside the queue would show.
#include <doctest/doctest.h>

#include <weft/testing/laws.hpp>
#include <weft/weft.hpp>

#include "backend/late_backend.hpp"
#include "sample.hpp"

namespace {
using namespace weft;
using S = strategy<mesh<dp, tp>, weft_test::late_backend>;
template <class Dims, class... Placements>
using real = basic_tensor<double, Dims, place<Placements...>, weft_test::late_backend>;

// Every mesh takes long, for its ranks wait at each collective: a few of them.
const testing::options few{.every = 4 * weft_test::sample_stride()};

TEST_CASE("late: products, sums over ranks, norms") {
  testing::check_gradients<S, real<dims<batch, hidden>, shard<batch, dp>, shard<hidden, tp>>,
                           real<dims<hidden, ffn>, replicate<dp>, shard<hidden, tp>>>(
      "late product", [](const auto& x, const auto& w) { return tanh(all_reduce<tp>(contract<hidden>(x, w))); }, few);
  testing::check_gradients<S, real<dims<batch, hidden>, shard<batch, dp>>, real<dims<hidden>, replicate<dp>>,
                           real<dims<hidden>, replicate<dp>>>(
      "late norms", [](const auto& x, const auto& w, const auto& b) { return layer_norm(rms_norm(x, w), w, b); }, few);
}
TEST_CASE("late: conversions between slices, views and broadcasts") {
  testing::check_gradients<S, real<dims<batch, seq>, shard<batch, tp>>, real<dims<seq>, shard<seq, tp>>>(
      "late views",
      [](const auto& x, const auto& b) {
        const auto y = all_to_all<seq, tp>(x * 2.0) + b;
        return mean<batch>(permute<seq, batch>(concat<batch>(tanh(y), y / (1.5 + square(y)))));
      },
      few);
}
TEST_CASE("late: attention with rotary positions") {
  const auto attend = [](const auto& q, const auto& k, const auto& v) {
    const auto table = make_rope_table<double, weft_test::late_backend>(*untyped(q).ctx, {.inverse = {1, 0.25}}, 64);
    return attention(rope(q, table), rope(k, table), v, {.causal = true});
  };
  using queries = real<dims<batch, seq, heads, head_dim>, shard<batch, dp>, shard<heads, tp>>;
  using keys = real<dims<batch, seq, kv_heads, head_dim>, shard<batch, dp>, shard<kv_heads, tp>>;
  testing::check_gradients<S, queries, keys, keys>(
      "late attention", attend,
      {.base = {{head_dim{}, 4}, {heads{}, 2}, {kv_heads{}, 2}}, .even = {heads{}, kv_heads{}}, .every = few.every});
}

}  // namespace
