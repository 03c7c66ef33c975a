// Finite differences for slice, permute, rename, merge, repeat and cast, and for the embedding.
#include <doctest/doctest.h>

#include <weft/op/embedding.hpp>
#include <weft/op/merge.hpp>
#include <weft/op/repeat.hpp>
#include <weft/op/view.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using x3 = dims<batch, seq, hidden>;

TEST_CASE("slice, permute, rename: linear, so any placement") {
  const options four{.base = {{seq{}, 4}}};
  gradients<real<x3, shard<batch, dp>, partial<tp>>>(
      "slice", [](const auto& x) { return slice<seq>(x, 1, 2); }, four);
  gradients<real<x3, shard<hidden, dp, tp>>>(
      "overlapping slices", [](const auto& x) { return slice<seq>(x, 0, 3) + slice<seq>(x, 1, 3); }, four);
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>>(
      "permute", [](const auto& x) { return permute<hidden, batch, seq>(x); });
  gradients<real<dims<batch, seq, heads, head_dim>, shard<heads, tp>, replicate<dp>>>(
      "permute four", [](const auto& x) { return permute<head_dim, seq, batch, heads>(x); });
  gradients<real<x3, shard<seq, tp>, partial<dp>>>(
      "rename", [](const auto& x) { return rename<seq, ffn>(x) + rename<seq, ffn>(x); });
  gradients<real<x3, shard<seq, tp>>>("outer product with itself",
                                      [](const auto& x) { return x * rename<hidden, ffn>(x); });
}

TEST_CASE("merge: linear, the outer dimension sharded or not, over one axis or two") {
  using x4 = dims<batch, heads, head_dim, hidden>;
  const options even{.even = {heads{}}};
  const auto widths = [](const auto& x) { return merge<ffn, heads, head_dim>(x); };
  gradients<real<x4, shard<heads, tp>, partial<dp>>>("outer sharded, pending", widths, even);
  gradients<real<x4, shard<heads, dp, tp>>>("outer over two axes", widths, even);
  gradients<real<x4, shard<batch, dp>, shard<hidden, tp>>>("others sharded, unevenly", widths);
  gradients<real<dims<heads, head_dim>, replicate<tp>>>(
      "all there is, called as the inner one", [](const auto& x) { return merge<head_dim, heads, head_dim>(x); });
  gradients<real<x4, shard<heads, tp>>>("twice, of what another view made", [](const auto& x) {
    return merge<seq, batch, ffn>(merge<ffn, heads, head_dim>(all_gather<tp>(scale(x, 2.0))));
  });
  gradients<real<x4, shard<heads, tp, dp>>>("an inner one of one element goes away, whatever the shares",
                                            [](const auto& x) { return merge<heads, heads, head_dim>(x); },
                                            {.base = {{head_dim{}, 1}}});
}

TEST_CASE("repeat: linear, the dimension whole, first or last, once or several times") {
  const auto thrice = [](const auto& x) { return repeat<seq>(x, 3); };
  gradients<real<x3, shard<batch, dp>, partial<tp>>>("pending", thrice);
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>>("others sharded, unevenly", thrice);
  gradients<real<x3, shard<hidden, dp, tp>>>("twice of one",
                                             [](const auto& x) { return repeat<seq>(x, 2) * repeat<seq>(x, 2); });
  gradients<real<x3, replicate<tp>>>("the first, then the last",
                                     [](const auto& x) { return repeat<hidden>(repeat<batch>(x, 2), 2); });
  gradients<real<x3, shard<hidden, tp>>>("copies on ranks of their own",
                                         [](const auto& x) { return all_to_all<seq, tp>(repeat<seq>(x, 2)); });
  gradients<real<x3, shard<hidden, tp>>>("once, and beside x",
                                         [](const auto& x) { return repeat<seq>(x, 1) * x + repeat<seq>(x, 1); });
}

TEST_CASE("cast carries the gradient back through the other type") {
  // The function is rounded to float: differences with steps of 1e-3 know it to about 6e-8 / 1e-3.
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>>(
      "cast", [](const auto& x) { return cast<double>(cast<float>(x)); }, {.tolerance = 2e-4});
  gradients<real<x3>>("cast to its own type", [](const auto& x) { return cast<double>(x); });
}

// Row numbers with repetitions, and one that is no token.
template <class I, class W>
I ids_for(const W& table, std::initializer_list<std::int64_t> sizes) {
  using rows = vocab;
  const std::int64_t n = table.template global_extent<rows>();
  return generate<I>(*untyped(table).ctx, sizes, [&](std::int64_t i) { return i == 1 ? -1 : (i * i + 1) % n; });
}

template <class... Ps>
using ids = tensor<std::int32_t, dims<batch, seq>, Ps...>;

TEST_CASE("embedding: rows, width or indices sharded") {
  using table = dims<vocab, hidden>;
  const auto lookup = []<class I>(I) { return [](const auto& w) { return embedding(ids_for<I>(w, {23, 3}), w); }; };
  gradients<real<table>>("all whole", lookup(ids<>{}));
  gradients<real<table, shard<vocab, tp>>>("vocabulary parallel", lookup(ids<shard<batch, dp>>{}));
  gradients<real<table, shard<vocab, tp, dp>>>("rows over two axes", lookup(ids<>{}));
  gradients<real<table, shard<hidden, tp>>>("width sharded", lookup(ids<shard<batch, dp>>{}));
  gradients<real<table, partial<tp>, replicate<dp>>>("a pending table", lookup(ids<>{}));
  gradients<real<table, replicate<dp>, shard<hidden, tp>>>("indices over an axis that the table names first",
                                                           lookup(ids<shard<batch, dp>>{}));
  gradients<real<table, shard<hidden, tp, dp>>>("width over two axes", lookup(ids<replicate<dp>>{}));
  gradients<real<table, replicate<tp>>>("indices sharded over two axes", lookup(ids<shard<batch, dp>>{}));
}

}  // namespace
