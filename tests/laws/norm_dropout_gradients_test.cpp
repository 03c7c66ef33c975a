// Finite differences for LayerNorm and for dropout, whose mask is the same function at every step of a difference.
#include <doctest/doctest.h>

#include <weft/autograd/checkpoint.hpp>
#include <weft/op/add_norm.hpp>
#include <weft/op/dropout.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using x3 = dims<batch, seq, hidden>;
using row = dims<hidden>;

TEST_CASE("layer_norm: gradients of weight and bias are pending wherever rows are sharded") {
  const auto norm = [](const auto& x, const auto& w, const auto& b) { return layer_norm(x, w, b, 0.1); };
  const options wide{.base = {{hidden{}, 5}}};
  gradients<real<x3>, real<row>, real<row>>("norm", norm, wide);
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>, real<row>, real<row>>("norm, rows sharded", norm, wide);
  gradients<real<x3, shard<seq, tp, dp>>, real<row, replicate<dp>>, real<row, replicate<tp>>>(
      "norm, rows over two axes", norm, wide);
  gradients<real<x3, replicate<tp>>, real<row>, real<row, replicate<dp>>>("norm, replicate", norm, wide);
  gradients<real<x3>, real<row, replicate<tp>>, real<row>>("norm, a replicated weight", norm, wide);
}

TEST_CASE("layer_norm of a row by itself") {
  gradients<real<row>>("norm of itself", [](const auto& w) { return layer_norm(w, w, w, 0.1); },
                       {.base = {{hidden{}, 5}}});
}

TEST_CASE("a LayerNorm with residual") {
  const auto both = [](const auto& x, const auto& r, const auto& w, const auto& b) {
    const auto [h, y] = add_layer_norm(x, r, w, b, 0.1);
    return tanh(h) + y * 0.7;
  };
  const options wide{.base = {{hidden{}, 5}}};
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>, real<x3, shard<batch, dp>, shard<seq, tp>>, real<row>,
            real<row, replicate<tp>>>("add and norm, rows sharded", both, wide);
  gradients<real<x3>, real<x3>, real<row>, real<row, replicate<dp>>>("add and norm, the sum promoted", both, wide);
}

TEST_CASE("dropout: any placement, pending sums pass") {
  const auto drop = [](const auto& x) { return dropout(x, 0.4, dropout_stream("law", 3)); };
  gradients<real<x3>>("dropout", drop);
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>>("dropout, sharded", drop);
  gradients<real<x3, shard<hidden, dp, tp>>>("dropout, sharded over two axes", drop);
  gradients<real<x3, replicate<dp>, shard<hidden, tp>>>("dropout, replicated", drop);
  gradients<real<x3, partial<dp>, shard<seq, tp>>>("dropout, pending", drop);
  gradients<real<x3, partial<dp>, partial<tp>>>("dropout, pending twice", drop);
  gradients<real<dims<>>>("dropout of a scalar", drop);
}

TEST_CASE("dropout: computed again, it drops the same") {
  gradients<real<x3, shard<seq, tp>>, real<row>>("checkpointed", [](const auto& x, const auto& w) {
    return checkpoint([w](const auto& a) { return dropout(a * w, 0.4, dropout_stream("law", 4)) * a; }, x);
  });
}

}  // namespace
