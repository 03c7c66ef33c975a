// Micro-batches of a step may differ in sequences, in length and in how many tokens count; evaluation may come between.
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "policy/in_parts.hpp"

namespace {
using namespace weft;

struct micro {
  std::int64_t sequences, length;
  int counted;  // of seven tokens
};
constexpr std::array<micro, 4> parts{{{4, 6, 7}, {8, 5, 3}, {4, 5, 0}, {4, 9, 5}}};

struct result {
  std::vector<double> losses, norms;
};

template <class M, class Config>
result train(const degrees& ranks, const Config& config, bool evaluates) {
  using S = typename M::strategy;
  result out;
  launch<S>(ranks, [&](context& ctx) {
    M model(ctx, config);
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    pipeline<M> stages(ctx, model);
    using ids = typename M::ids;
    const auto read = [&](int m) {
      const micro& p = parts[std::size_t(m)];
      const auto token = [&](std::int64_t i) { return (i * 5 + m) % config.vocab; };
      return token_batch<ids>{generate<ids>(ctx, {p.sequences, p.length}, token),
                              generate<ids>(ctx, {p.sequences, p.length}, [&](std::int64_t i) {
                                return i % 7 < p.counted ? token(i + 1) : std::int64_t(-1);
                              })};
    };
    using loss_tensor = typename pipeline<M>::loss_tensor;
    for (int step = 1; step <= 3; ++step) {
      store.begin_step(int(parts.size()));
      const auto own = stages.train(int(parts.size()), 1, read, [&](int) { store.end_micro_batch(); });
      const loss_sums s = finished<loss_tensor>(ctx, own);
      store.finish_gradients();
      const double norm = store.gradient_norm() / s.count;
      store.step(adamw{}.at(step, 1e-2, 1 / s.count));
      double value = 0;
      if (evaluates) value = finished<loss_tensor>(ctx, stages.evaluate(2, read)).sum;
      if (ctx.is_first()) {
        out.losses.push_back(s.sum / s.count), out.norms.push_back(norm);
        if (evaluates) out.losses.push_back(value);
      }
    }
  });
  return out;
}

template <class S, template <class> class M, class Config>
void check(const degrees& ranks, const Config& config) {
  using one = strategy<mesh<>, fp64>;
  const result serial = train<M<one>>({}, config, true), got = train<M<S>>(ranks, config, true),
               silent = train<M<S>>(ranks, config, false);
  REQUIRE(serial.losses.size() == got.losses.size());
  for (std::size_t i = 0; i < serial.losses.size(); ++i)
    CHECK(got.losses[i] == doctest::Approx(serial.losses[i]).epsilon(1e-11));
  for (std::size_t i = 0; i < serial.norms.size(); ++i) {
    CHECK(got.norms[i] == doctest::Approx(serial.norms[i]).epsilon(1e-10));
    CHECK(got.norms[i] == silent.norms[i]);  // evaluation leaves no trace, in dropout's masks neither
  }
}

const llama_config llama_sizes{
    .layers = 4, .hidden = 24, .heads = 4, .kv_heads = 4, .ffn = 20, .vocab = 37, .max_seq = 12};
const gpt2_config gpt2_sizes{.layers = 4, .hidden = 24, .heads = 4, .vocab = 37, .max_seq = 12, .dropout = 0.2};
}  // namespace

TEST_CASE(
    "uneven micro-batches equal one rank: data, tensor and sequence parallelism, sharded storage, recomputation") {
  using all = mesh<dp, tp>;
  check<strategy<all, fp64, zero1>, llama>({.dp = 4}, llama_sizes);
  check<strategy<all, fp64, zero3, sequence_parallel, checkpoint_full>, llama>({.dp = 2, .tp = 2}, llama_sizes);
  check<strategy<all, fp64, zero2, sequence_parallel, checkpoint_selective>, llama>({.tp = 4}, llama_sizes);
  check<strategy<all, fp64, zero2, sequence_parallel>, gpt2>({.dp = 2, .tp = 2}, gpt2_sizes);
}
TEST_CASE("uneven micro-batches equal one rank: pipelines, backwards whole and in parts, dropout") {
  using all = mesh<pp, dp, tp>;
  check<strategy<all, fp64, zero1>, llama>({.dp = 2, .pp = 2}, llama_sizes);
  check<strategy<all, fp64, weft_test::in_parts, zero3, sequence_parallel, checkpoint_full>, llama>({.tp = 2, .pp = 2},
                                                                                                    llama_sizes);
  check<strategy<all, fp64, zero2, checkpoint_selective>, gpt2>({.pp = 4}, gpt2_sizes);
  check<strategy<all, fp64, weft_test::in_parts, sequence_parallel>, gpt2>({.dp = 2, .tp = 2, .pp = 2}, gpt2_sizes);
}
