// The feed-forward block of Llama: down(silu(gate(x)) * up(x)). Invariant: `ffn` is sharded over tp, so the output's
// sum is pending there.
#pragma once

#include <weft/nn/parameters.hpp>
#include <weft/nn/weight.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/swiglu.hpp>

namespace weft {

/// Source: Shazeer 2020 (SwiGLU); sharded over tp as Shoeybi et al. 2019, section 3.
template <class S>
struct mlp {
  weight<S, dims<ffn, hidden>, shard<ffn, tp>> gate, up;
  weight<S, dims<hidden, ffn>, shard<ffn, tp>> down;

  /// x [batch, seq, hidden], whole on tp -> [batch, seq, hidden], partial over tp.
  template <any_tensor X>
  auto operator()(const X& x) const {
    auto h = swiglu(contract<hidden>(x, gate), contract<hidden>(x, up));  // [batch, seq, ffn/tp]
    return contract<ffn>(h, down);                                        // [batch, seq, hidden] partial over tp
  }

  /// Registers the weights as prefix + "gate", "up", "down", born normal with these deviations (`out_stddev`: down's).
  /// width: of hidden; inner: of ffn, both global.
  void add_to(parameter_registry& registry, context& ctx, const std::string& prefix, std::int64_t width,
              std::int64_t inner, double stddev, double out_stddev) {
    registry.add(ctx, gate, prefix + "gate", {2, {inner, width}}, {stddev});
    registry.add(ctx, up, prefix + "up", {2, {inner, width}}, {stddev});
    registry.add(ctx, down, prefix + "down", {2, {width, inner}}, {out_stddev});
  }
};

}  // namespace weft
