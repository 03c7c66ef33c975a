// Grouped-query self-attention with rotary positions. Invariant: heads are sharded over tp, so the output's sum is
// pending there.
#pragma once

#include <weft/nn/parameters.hpp>
#include <weft/nn/weight.hpp>
#include <weft/op/attention.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/rope.hpp>

namespace weft {

/// Source: Vaswani et al. 2017; Ainslie et al. 2023 (grouped queries); sharded over tp as Shoeybi et al. 2019, section
/// 3.
template <class S>
struct self_attention {
  weight<S, dims<heads, head_dim, hidden>, shard<heads, tp>> query;
  weight<S, dims<kv_heads, head_dim, hidden>, shard<kv_heads, tp>> key, values;
  weight<S, dims<hidden, heads, head_dim>, shard<heads, tp>> out;

  /// x [batch, seq, hidden], whole on tp -> [batch, seq, hidden], partial over tp.
  template <any_tensor X>
  auto operator()(const X& x, const rope_table& positions) const {
    auto q = rope(contract<hidden>(x, query), positions);  // [batch, seq, heads/tp, head_dim]
    auto k = rope(contract<hidden>(x, key), positions);    // [batch, seq, kv_heads/tp, head_dim]
    auto v = contract<hidden>(x, values);                  // [batch, seq, kv_heads/tp, head_dim]
    return contract<heads, head_dim>(attention(q, k, v), out);
  }

  /// Registers the weights as prefix + "query", "key", "value", "out", born normal with these deviations (`out_stddev`:
  /// out's). width: of hidden; size: of one head; all global.
  void add_to(parameter_registry& registry, context& ctx, const std::string& prefix, std::int64_t width,
              std::int64_t n_heads, std::int64_t n_kv_heads, std::int64_t size, double stddev, double out_stddev) {
    registry.add(ctx, query, prefix + "query", {3, {n_heads, size, width}}, {stddev});
    registry.add(ctx, key, prefix + "key", {3, {n_kv_heads, size, width}}, {stddev});
    registry.add(ctx, values, prefix + "value", {3, {n_kv_heads, size, width}}, {stddev});
    registry.add(ctx, out, prefix + "out", {3, {width, n_heads, size}}, {out_stddev});
  }
};

}  // namespace weft
