// A layer of GPT-2: LayerNorm before each block, attention and a two-layer perceptron with biases, dropout behind each.
// Invariant: a bias of a sharded width is sharded as it is; a bias behind a sum over tp is added after that sum, once.
#pragma once

#include <functional>
#include <string>

#include <weft/nn/query_key_value.hpp>
#include <weft/nn/tensor_parallel.hpp>
#include <weft/nn/training_dropout.hpp>
#include <weft/op/add_norm.hpp>
#include <weft/op/attention.hpp>
#include <weft/op/elementwise.hpp>

namespace weft {

/// LayerNorm's weight and bias.
template <class S>
struct layer_norm_weights {
  norm_weight<S, dims<hidden>> weight, bias;

  template <any_tensor X>
  auto operator()(const X& x, double eps) const {
    return layer_norm(x, weight, bias, eps);
  }
  /// x + r, and the norm of that.
  template <any_tensor X, any_tensor R>
  auto of_sum(const X& x, const R& r, double eps) const {
    return add_layer_norm(x, r, weight, bias, eps);
  }
  void add_to(parameter_registry& registry, context& ctx, const std::string& name, std::int64_t width) {
    registry.add(ctx, weight, name + ".weight", {1, {width}}, {0, 1});
    registry.add(ctx, bias, name + ".bias", {1, {width}}, {});
  }
};

template <class S>
struct gpt2_layer {
  layer_norm_weights<S> attention_norm, mlp_norm;
  query_key_value<S> project;
  linear<S, dims<hidden>, dims<heads, head_dim>, heads> out;
  norm_weight<S, dims<hidden>> out_bias, down_bias;
  linear<S, dims<ffn>, dims<hidden>, ffn, true> up;
  linear<S, dims<hidden>, dims<ffn>, ffn> down;
  std::string after_attention, after_mlp;  // names of the dropouts

  template <any_tensor X>
  auto operator()(const X& x, double eps, double dropout, kv_cache* cache = nullptr,
                  const token_ids<S>* documents = nullptr) const {
    const auto [h, normed] = mlp_norm.of_sum(
        x,
        training_dropout(leave_block<S>(attend(enter_block<S>(attention_norm(x, eps)), cache, documents)) + out_bias,
                         dropout, after_attention),
        eps);
    return h + training_dropout(leave_block<S>(feed(enter_block<S>(normed))) + down_bias, dropout, after_mlp);
  }

  /// x [batch, seq, hidden], whole on tp -> [batch, seq, hidden], partial over tp, its bias not yet added. cache: as
  /// attention_options; documents: null, or their starts, at which attention stops.
  template <any_tensor X>
  auto attend(const X& x, kv_cache* cache = nullptr, const token_ids<S>* documents = nullptr) const {
    const auto [q, k, v] = project(x, std::identity(), std::identity());  // each [batch, seq, heads/tp, head_dim]
    return out(documents ? attention(q, k, v, *documents) : attention(q, k, v, {.cache = cache}));
  }
  /// As attend.
  template <any_tensor X>
  auto feed(const X& x) const {
    return down(up.with_gelu(x));  // [batch, seq, ffn/tp]
  }

  void add_to(parameter_registry& registry, context& ctx, const std::string& prefix, std::int64_t width,
              std::int64_t n_heads, std::int64_t size, std::int64_t inner, double stddev, double out_stddev) {
    after_attention = prefix + "attention", after_mlp = prefix + "mlp";
    const auto bias = [&](auto& w, const char* name, const shape& extents) {
      registry.add(ctx, w, prefix + name, extents, {}).decays = false;
    };
    attention_norm.add_to(registry, ctx, prefix + "attention_norm", width);
    const shape stream{1, {width}}, all{2, {n_heads, size}}, wide{1, {inner}};
    project.add_to(registry, ctx, prefix, width, n_heads, n_heads, size, stddev);
    out.add_to(registry, ctx, prefix + "out", stream, all, out_stddev);
    project.add_biases_to(registry, ctx, prefix, n_heads, n_heads, size);
    bias(out_bias, "out_bias", {1, {width}});
    mlp_norm.add_to(registry, ctx, prefix + "mlp_norm", width);
    up.add_to(registry, ctx, prefix + "up", wide, stream, stddev);
    down.add_to(registry, ctx, prefix + "down", stream, wide, out_stddev);
    up.add_bias_to(registry, ctx, prefix + "up_bias", wide);
    bias(down_bias, "down_bias", {1, {width}});
  }
};

}  // namespace weft
