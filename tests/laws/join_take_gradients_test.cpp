// Finite differences for concat and take, in placements of every kind, and their values against loops.
#include <doctest/doctest.h>

#include <weft/op/concat.hpp>
#include <weft/op/take.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using x3 = dims<batch, seq, hidden>;

TEST_CASE("concat of whole values, slices and pending sums") {
  const auto along_hidden = [](const auto& a, const auto& b) { return concat<hidden>(a, b, a); };
  const auto along_seq = [](const auto& a, const auto& b) { return concat<seq>(b, slice<seq>(a, 0, 1)); };
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>, real<x3, shard<batch, dp>, shard<seq, tp>>>("concat, sharded",
                                                                                                    along_hidden);
  gradients<real<x3, partial<tp>, shard<batch, dp>>, real<x3, partial<tp>, shard<batch, dp>>>("concat of pending sums",
                                                                                              along_hidden);
  gradients<real<x3>, real<x3, replicate<tp>>>("concat, one is promoted", along_seq);
  gradients<real<x3, shard<hidden, tp, dp>>, real<x3, shard<hidden, tp, dp>>>("concat, over two axes", along_seq);
  gradients<real<x3, shard<batch, dp>>>("concat of parts of one", [](const auto& a) {
    return concat<seq>(a * 2.0, concat<seq>(a, slice<seq>(a, 0, 1)));
  });
}

/// Ids along D, some of them twice.
template <class Ids, class D, class... Ds>
Ids ids_for(const auto& x, std::initializer_list<std::int64_t> extents) {
  const std::int64_t n = x.template global_extent<D>();
  const Ids ids = generate<Ids>(*untyped(x).ctx, extents, [n](std::int64_t i) { return double((i * 7 + i / 3) % n); });
  const local_array poisoned =
      weft::detail::with_padding<cpu_backend>(*untyped(x).ctx, untyped(ids).held(), weft::detail::valid_part(ids), 1e9);
  cpu_backend::copy_bytes(untyped(x).ctx->template queue<cpu_backend>(), poisoned.data, untyped(ids).held().data,
                          poisoned.bytes());
  return ids;
}
template <class... Ps>
using ids1 = tensor<std::int32_t, dims<heads>, Ps...>;
template <class... Ps>
using ids2 = tensor<std::int32_t, dims<batch, heads>, Ps...>;

TEST_CASE("take by indices of their own dimensions") {
  const auto few = [](const auto& x) { return take<seq>(x, ids_for<ids1<>, seq>(x, {3})); };
  const auto sharded = [](const auto& x) { return take<seq>(x, ids_for<ids1<shard<heads, tp>>, seq>(x, {5})); };
  const options even{.base = {{seq{}, 4}}};
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>>("take, of slices", few, even);
  gradients<real<x3, partial<tp>, shard<hidden, dp>>>("take, of pending sums", few, even);
  gradients<real<x3>>("take, by a slice of the ids", sharded, even);
  gradients<real<x3, replicate<tp>, shard<batch, dp>>>("take, by a slice of the ids, replicate", sharded, even);
}

TEST_CASE("take by indices that share dimensions with x") {
  const auto with_batch = []<class... Ps>(tag_list<Ps...>) {
    return [](const auto& x) {
      return take<seq>(x, ids_for<ids2<Ps...>, seq>(x, {x.template global_extent<batch>(), 2}));
    };
  };
  const options even{.base = {{seq{}, 4}}};
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>>("take, batch together",
                                                           with_batch(tag_list<shard<batch, dp>>{}), even);
  gradients<real<x3, shard<batch, tp, dp>>>("take, batch over two axes", with_batch(tag_list<shard<batch, tp, dp>>{}),
                                            even);
  gradients<real<x3, partial<tp>>>("take, batch together, pending", with_batch(tag_list<>{}), even);
  gradients<real<dims<batch, hidden>, shard<batch, dp>>>(
      "take, one number a row",
      [](const auto& x) {
        using ids = tensor<std::int32_t, dims<batch>, shard<batch, dp>>;
        return take<hidden>(x, ids_for<ids, hidden>(x, {x.template global_extent<batch>()}));
      },
      {.base = {{hidden{}, 5}}});
}

TEST_CASE("the values of concat and take, and what they refuse when they run") {
  on_ranks({}, [](context& ctx) {
    const auto f = [](std::int64_t i) { return double(i); };
    const auto x = generate<real<x3>>(ctx, {2, 3, 4}, f);
    const auto y = concat<seq>(x, generate<real<x3>>(ctx, {2, 1, 4}, [](auto i) { return 100.0 + double(i); }));
    static_assert(std::same_as<dims_of<decltype(y)>, x3>);
    require(y.template global_extent<seq>() == 4, "the extents don't add up");
    for (int b = 0; b < 2; ++b)
      for (int s = 0; s < 4; ++s)
        for (int h = 0; h < 4; ++h)
          require(y.local_share()[(b * 4 + s) * 4 + h] == (s < 3 ? (b * 3 + s) * 4 + h : 100 + b * 4 + h), "concat");
    const std::int32_t at[] = {2, 0, 0, 1, 1, 2};
    const auto ids = from_global<ids2<>>(ctx, {2, 3}, at);
    const auto z = take<seq>(x, ids);
    static_assert(std::same_as<dims_of<decltype(z)>, dims<batch, heads, hidden>>);
    for (int b = 0; b < 2; ++b)
      for (int k = 0; k < 3; ++k)
        for (int h = 0; h < 4; ++h)
          require(z.local_share()[(b * 3 + k) * 4 + h] == (b * 3 + at[b * 3 + k]) * 4 + h, "take");
    const auto says = [](const char* sentence, auto&& call) {
      try {
        call();
      } catch (const failure& e) {
        return require(std::string(e.what()).find(sentence) != std::string::npos, e.what());
      }
      fail("nothing was said: ", sentence);
    };
    says("take<seq>(x, ids): the index 3 is outside of dimension seq, whose 3 elements count from 0",
         [&] { take<seq>(x, full<ids1<>>(ctx, {2}, 3)); });
    says("dimension hidden has 4 elements on one side and 5 on the other", [&] {
      concat<seq>(x, zeros<real<x3>>(ctx, {2, 1, 5}));
    });
  });
}

}  // namespace
