// Grouped-query self-attention with rotary positions. Invariant: heads are sharded over tp, so the output's sum is
// pending there.
#pragma once

#include <weft/nn/query_key_value.hpp>
#include <weft/op/attention.hpp>
#include <weft/op/rms_norm.hpp>
#include <weft/op/rope.hpp>

namespace weft {

/// Source: Vaswani et al. 2017; Ainslie et al. 2023 (grouped queries); sharded over tp as Shoeybi et al. 2019, section
/// 3.
template <class S>
struct self_attention {
  /// Whether ranks along tp share key and value heads.
  static constexpr bool shares_kv = query_key_value<S>::shares_kv;

  query_key_value<S> project;
  weight<S, dims<head_dim>, replicate<tp>> query_norm,
      key_norm;  // registered where a model has them, one for all heads
  linear<S, dims<hidden>, dims<heads, head_dim>, heads> out;

  /// x [batch, seq, hidden], whole on tp -> [batch, seq, hidden], partial over tp. norm_eps: of norms, where they are
  /// registered; window, cache: as attention_options; documents: null, or their starts, at which attention stops.
  template <any_tensor X>
  auto operator()(const X& x, const rope_table& positions, double norm_eps, std::int64_t window,
                  kv_cache* cache = nullptr, const token_ids<S>* documents = nullptr) const {
    const auto turned = [&](const auto& norm) {
      return
          [&](const auto& y) { return rope(untyped(norm).slot ? rms_norm(y, norm, norm_eps) : y, positions, cache); };
    };
    // q [batch, seq, heads/tp, head_dim]; k and v [batch, seq, kv_heads/tp, head_dim]
    const auto [q, k, v] = project(x, turned(query_norm), turned(key_norm));
    const attention_options options{.window = window, .cache = cache};
    return out(documents ? attention(q, k, v, *documents, options) : attention(q, k, v, options));
  }

  /// Registers the weights as query_key_value does, and prefix + "out", born normal with these deviations
  /// (`out_stddev`: out's). width: of hidden; size: of one head; all global.
  void add_to(parameter_registry& registry, context& ctx, const std::string& prefix, std::int64_t width,
              std::int64_t n_heads, std::int64_t n_kv_heads, std::int64_t size, double stddev, double out_stddev) {
    project.add_to(registry, ctx, prefix, width, n_heads, n_kv_heads, size, stddev);
    out.add_to(registry, ctx, prefix + "out", {1, {width}}, {2, {n_heads, size}}, out_stddev);
  }
  /// Registers prefix + "query_norm", "key_norm", born 1: then queries and keys of every head are normalised (RMSNorm)
  /// before they are turned, as in Qwen 3.
  void add_norms_to(parameter_registry& registry, context& ctx, const std::string& prefix, std::int64_t size) {
    registry.add(ctx, query_norm, prefix + "query_norm", {1, {size}}, {0, 1});
    registry.add(ctx, key_norm, prefix + "key_norm", {1, {size}}, {0, 1});
  }
};

}  // namespace weft
