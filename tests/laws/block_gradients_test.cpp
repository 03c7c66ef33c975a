// Finite differences for the parts of a transformer block: RMSNorm, also with residual, SwiGLU, rotary positions, and
// recomputation around them.
#include <doctest/doctest.h>

#include <weft/autograd/checkpoint.hpp>
#include <weft/op/add_norm.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/rope.hpp>
#include <weft/op/swiglu.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using x3 = dims<batch, seq, hidden>;

TEST_CASE("rms_norm: the weight's gradient is pending wherever rows are sharded") {
  const auto norm = [](const auto& x, const auto& w) { return rms_norm(x, w); };
  gradients<real<x3>, real<dims<hidden>>>("norm", norm);
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>, real<dims<hidden>>>("norm, rows sharded", norm);
  gradients<real<x3, shard<seq, tp, dp>>, real<dims<hidden>, replicate<dp>>>("norm, rows over two axes", norm);
  gradients<real<x3, replicate<tp>>, real<dims<hidden>>>(
      "norm, replicate", [](const auto& x, const auto& w) { return rms_norm(x, w, 0.1); });
}

TEST_CASE("rms_norm of a row by itself") {
  gradients<real<dims<hidden>>>("norm of itself", [](const auto& w) { return rms_norm(w, w); });
}

TEST_CASE("a norm with residual: the gradients of the sum and of what is normed meet, and go to both") {
  const auto both = [](const auto& x, const auto& r, const auto& w) {
    const auto [h, y] = add_rms_norm(x, r, w, 0.1);
    return tanh(h) + y * 0.7;
  };
  gradients<real<x3>, real<x3>, real<dims<hidden>>>("add and norm", both);
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>, real<x3, shard<batch, dp>, shard<seq, tp>>,
            real<dims<hidden>, replicate<dp>>>("add and norm, rows sharded", both);
  gradients<real<x3>, real<x3>, real<dims<hidden>, replicate<tp>>>("add and norm, the sum promoted", both);
  gradients<real<x3, replicate<tp>>, real<dims<hidden>>>(
      "add and norm of one tensor",
      [](const auto& x, const auto& w) { return std::get<1>(add_rms_norm(x, x, w, 0.1)); });
}

TEST_CASE("swiglu") {
  const auto gate = [](const auto& g, const auto& u) { return swiglu(g, u); };
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>, real<x3, shard<batch, dp>, shard<hidden, tp>>>("gate", gate);
  gradients<real<x3, replicate<tp>>, real<x3, replicate<dp>>>("gate, promoted", gate);
  gradients<real<x3, shard<seq, dp>>>("gate with itself", [](const auto& x) { return swiglu(x, x); });
}

// A table of random turns: its entries need not be a rotation for the operator to be linear.
rope_table turns(context& ctx, std::int64_t positions, std::int64_t half) {
  shape s;
  s.push_back(positions), s.push_back(half);
  rope_table t{ctx.make(dtype::f64, s), ctx.make(dtype::f64, s)};
  for (std::int64_t i = 0; i < s.elements(); ++i) {
    const double angle = 0.7 * double(i / half) / double(1 + i % half);
    t.cos.as<double>()[i] = std::cos(angle), t.sin.as<double>()[i] = std::sin(angle);
  }
  return t;
}

TEST_CASE("rope: positions are global, pending sums pass") {
  using q4 = dims<batch, seq, heads, head_dim>;
  const auto turn = [](const auto& x) {
    const auto half = x.template local_extent<head_dim>() / 2;
    return rope(x, turns(*untyped(x).ctx, 64, half));
  };
  const options even{.base = {{head_dim{}, 6}, {seq{}, 3}}};
  gradients<real<q4, shard<batch, dp>, shard<heads, tp>>>("rope", turn, even);
  gradients<real<q4, shard<seq, dp, tp>>>("rope, positions over two axes", turn, even);
  gradients<real<q4, shard<seq, tp>, partial<dp>>>("rope, pending", turn, even);
}

TEST_CASE("checkpoint: the gradient of what is computed again, and of the weights that it reads") {
  using x = real<dims<batch, hidden>, shard<batch, dp>>;
  using w = real<dims<hidden, ffn>, shard<ffn, tp>>;
  using v = real<dims<ffn, hidden>, shard<ffn, tp>>;
  gradients<x, w, v>("checkpointed", [](const auto& in, const auto& up, const auto& down) {
    const auto block = [up, down](const auto& a) {
      return a + all_reduce<tp>(contract<ffn>(silu(contract<hidden>(a, up)), down));
    };
    return checkpoint(block, checkpoint(block, in));
  });
  gradients<w, v>("checkpointed, the weights alone", [](const auto& up, const auto& down) {
    const auto in = ones<x>(*untyped(up).ctx, {24, up.template local_extent<hidden>()});
    return checkpoint([=](const auto& a) { return all_reduce<tp>(contract<ffn>(silu(contract<hidden>(a, up)), down)); },
                      in);
  });
}

}  // namespace
