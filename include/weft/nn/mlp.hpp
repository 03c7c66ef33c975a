// The feed-forward block of Llama: down(silu(gate(x)) * up(x)). Invariant: `ffn` is sharded over tp, so the output's
// sum is pending there.
#pragma once

#include <weft/nn/linear.hpp>
#include <weft/op/swiglu.hpp>

namespace weft {

/// Source: Shazeer 2020 (SwiGLU); sharded over tp as Shoeybi et al. 2019, section 3.
template <class S>
struct mlp {
  linear<S, dims<ffn>, dims<hidden>, ffn> gate, up;
  linear<S, dims<hidden>, dims<ffn>, ffn> down;

  /// x [batch, seq, hidden], whole on tp -> [batch, seq, hidden], partial over tp.
  template <any_tensor X>
  auto operator()(const X& x) const {
    return down(swiglu(gate(x), up(x)));  // [batch, seq, ffn/tp] -> [batch, seq, hidden] partial over tp
  }

  /// Registers the weights as prefix + "gate", "up", "down", born normal with these deviations (`out_stddev`: down's).
  /// width: of hidden; inner: of ffn, both global.
  void add_to(parameter_registry& registry, context& ctx, const std::string& prefix, std::int64_t width,
              std::int64_t inner, double stddev, double out_stddev) {
    gate.add_to(registry, ctx, prefix + "gate", {1, {inner}}, {1, {width}}, stddev);
    up.add_to(registry, ctx, prefix + "up", {1, {inner}}, {1, {width}}, stddev);
    down.add_to(registry, ctx, prefix + "down", {1, {width}}, {1, {inner}}, out_stddev);
  }
};

}  // namespace weft
