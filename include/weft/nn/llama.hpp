// Llama (Touvron et al. 2023): RMSNorm before each block, rotary positions, SwiGLU, grouped-query attention, no biases.
// Invariant: the source is the same for every strategy; which ranks hold what is in the weights' types.
#pragma once

#include <cmath>
#include <vector>

#include <weft/nn/decoder.hpp>
#include <weft/nn/layer_groups.hpp>
#include <weft/nn/mlp.hpp>
#include <weft/nn/rope_scaling.hpp>
#include <weft/nn/self_attention.hpp>
#include <weft/nn/tensor_parallel.hpp>
#include <weft/op/add_norm.hpp>
#include <weft/op/embedding.hpp>
#include <weft/op/rms_norm.hpp>

namespace weft {

/// Sizes of the whole model, whatever the strategy. Matrices begin normal with init_stddev, those that write to the
/// residual stream with less for more layers; norms begin with 1.
struct llama_config {
  std::int64_t layers = 6, hidden = 384, heads = 6;
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;  // 0: hidden / heads
  std::int64_t ffn = 0;       // 0: 8/3 of hidden, rounded up to a multiple of 64
  std::int64_t vocab = 256, max_seq = 256;
  weft::rope_scaling rope_scaling = {};  // how positions are stretched beyond what the model was trained on
  double rope_theta = 10000, norm_eps = 1e-5, init_stddev = 0.02;
  bool tied_embeddings = false;
  bool qkv_bias = false;         // of queries, keys and values, as in Qwen 2
  bool qk_norm = false;          // RMSNorm of every head's queries and keys, as in Qwen 3
  std::int64_t window = 0;       // keys that a query sees, up to its own, as in Mistral; 0: all
  std::int64_t window_from = 0;  // the first layer, from 0, with that window: those before see all keys, as in Qwen
  /// The token that ends a document of several in a sequence: behind it attention sees none of what came before. -1:
  /// none. It is a setting of training, which no config.json has; a kv_cache takes each sequence for one document.
  std::int64_t document_end = -1;
  weft::layer_groups layer_groups = {};  // key and value heads of each layer that is pruned; empty: kv_heads in all

  friend bool operator==(const llama_config&, const llama_config&) = default;

  /// The configuration with every 0 filled in, checked against the degrees. shares_kv: whether ranks share key and
  /// value heads, as under shared_kv<>. Throws weft::failure with the way out.
  WEFT_LINKED llama_config resolved(int tensor_parallel = 1, bool shares_kv = false) const {
    llama_config c = *this;
    const auto size = detail::check_size;
    size(c.layers, "layers"), size(c.hidden, "hidden"), size(c.heads, "heads");
    size(c.vocab, "vocab"), size(c.max_seq, "max_seq");
    detail::check_positive(c.rope_theta, "rope_theta"), detail::check_positive(c.norm_eps, "norm_eps");
    detail::check_not_negative(c.init_stddev, "init_stddev");
    if (c.kv_heads == 0) c.kv_heads = c.heads;
    require(c.kv_heads >= 1 && c.heads % c.kv_heads == 0, c.heads, " heads don't divide into groups of ", c.kv_heads,
            " key and value heads; choose kv_heads that divides heads");
    if (c.head_dim == 0) {
      require(c.hidden % c.heads == 0, "hidden ", c.hidden, " doesn't divide by ", c.heads,
              " heads; choose heads that divide hidden, or set head_dim");
      c.head_dim = c.hidden / c.heads;
    }
    require(c.head_dim % 2 == 0, "head_dim ", c.head_dim,
            " is odd; rotary positions turn pairs, so choose an even one");
    if (c.ffn == 0) c.ffn = (c.hidden * 8 / 3 + 63) / 64 * 64;
    size(c.head_dim, "head_dim"), size(c.ffn, "ffn");
    require(c.window >= 0, "window is ", c.window, "; it is at least 1, or 0 for all keys");
    require(c.window_from >= 0 && (c.window > 0 ? c.window_from < c.layers : c.window_from == 0), "window_from is ",
            c.window_from, ", with a window of ", c.window, " in ", c.layers,
            " layers; it is the number of one of them, or 0 where no window is");
    detail::check_document_end(c.document_end, c.vocab);
    c.rope_scaling = c.rope_scaling.resolved(c.max_seq);
    require(c.rope_scaling.kind != rope_kind::yarn || c.rope_theta > 1,
            "yarn's rope scaling needs a rope_theta above 1, not ", c.rope_theta);
    const auto divides = [&](std::int64_t n, const char* what) { detail::check_divides(n, what, tensor_parallel); };
    detail::check_layer_groups(c.layer_groups, c.layers, c.kv_heads, tensor_parallel,
                               shares_kv ? c.heads / c.kv_heads : 0);
    if (c.layer_groups.empty()) divides(c.heads, "heads");
    require(shares_kv || !c.layer_groups.empty() || c.kv_heads % tensor_parallel == 0, c.kv_heads,
            " kv_heads don't divide among tp = ", tensor_parallel,
            " ranks; choose tp or kv_heads so that they do, or a strategy with shared_kv<>, under which the ranks "
            "share every head");
    divides(c.ffn, "ffn");
    return c;
  }

  /// Key and value heads of each layer, with heads / kv_heads query heads each.
  WEFT_LINKED std::vector<std::int64_t> groups_by_layer() const {
    const llama_config c = resolved();
    return detail::groups_of_layers(c.layer_groups, c.layers, c.kv_heads);
  }

  /// The configuration with so many in each layer. Where all have as many, layers are ordinary ones with fewer heads;
  /// with qkv_bias layer_groups says so, since Qwen 2's config.json can't.
  WEFT_LINKED llama_config with_groups(const std::vector<std::int64_t>& groups) const {
    llama_config c = resolved();
    c.layer_groups = groups;
    c = c.resolved();
    if (groups.empty() || std::count(groups.begin(), groups.end(), groups[0]) < std::ssize(groups)) return c;
    if (c.qkv_bias && groups[0] < c.kv_heads) return c;
    c.layer_groups = {};
    c.heads = c.heads / c.kv_heads * groups[0], c.kv_heads = groups[0];
    return c;
  }

  /// Parameters of the whole model.
  WEFT_LINKED std::int64_t parameters() const {
    const llama_config c = resolved();
    const std::int64_t group = c.heads / c.kv_heads, feed = 3 * c.hidden * c.ffn,
                       of_group = c.head_dim * (2 * c.hidden * (group + 1) + (c.qkv_bias ? group + 2 : 0)),
                       norms = 2 * c.hidden + (c.qk_norm ? 2 * c.head_dim : 0);
    std::int64_t groups = 0;
    for (const std::int64_t n : groups_by_layer()) groups += n;
    return c.vocab * c.hidden * (c.tied_embeddings ? 1 : 2) + c.hidden + groups * of_group + c.layers * (feed + norms);
  }
};

namespace detail {
[[gnu::cold]] WEFT_LINKED void compare_configuration(context& ctx, const llama_config& c) {
  const auto n = [](auto number) { return static_cast<double>(number); };
  compare_configuration(ctx, "llama",
                        {{"layers", n(c.layers)},
                         {"hidden", n(c.hidden)},
                         {"heads", n(c.heads)},
                         {"kv_heads", n(c.kv_heads)},
                         {"head_dim", n(c.head_dim)},
                         {"ffn", n(c.ffn)},
                         {"vocab", n(c.vocab)},
                         {"max_seq", n(c.max_seq)},
                         {"rope_theta", n(c.rope_theta)},
                         {"norm_eps", n(c.norm_eps)},
                         {"init_stddev", n(c.init_stddev)},
                         {"tied_embeddings", n(c.tied_embeddings)},
                         {"qkv_bias", n(c.qkv_bias)},
                         {"qk_norm", n(c.qk_norm)},
                         {"window", n(c.window)},
                         {"window_from", n(c.window_from)},
                         {"document_end", n(c.document_end)},
                         {"rope_scaling.kind", n(c.rope_scaling.kind)},
                         {"rope_scaling.factor", n(c.rope_scaling.factor)},
                         {"rope_scaling.original_max_seq", n(c.rope_scaling.original_max_seq)},
                         {"rope_scaling.attention_factor", n(c.rope_scaling.attention_factor)},
                         {"rope_scaling.beta_fast", n(c.rope_scaling.beta_fast)},
                         {"rope_scaling.beta_slow", n(c.rope_scaling.beta_slow)},
                         {"rope_scaling.low_freq_factor", n(c.rope_scaling.low_freq_factor)},
                         {"rope_scaling.high_freq_factor", n(c.rope_scaling.high_freq_factor)},
                         {"numbers in layer_groups", n(c.layer_groups.size())}});
  compare_layer_groups(ctx, "llama", c.layer_groups);
}
}  // namespace detail

/// One layer: h = x + attend(norm(x)), h + feed(norm(h)). x and the output: [batch, seq, hidden], sequence-parallel
/// [batch, seq/tp, hidden].
template <class S>
struct llama_layer {
  norm_weight<S, dims<hidden>> attention_norm, mlp_norm;
  self_attention<S> attend;
  mlp<S> feed;
  std::int64_t window = 0;  // of this layer

  template <any_tensor X>
  auto operator()(const X& x, const rope_table& positions, double eps, kv_cache* cache = nullptr,
                  const token_ids<S>* documents = nullptr) const {
    const auto [h, normed] = add_rms_norm(x,
                                          leave_block<S>(attend(enter_block<S>(rms_norm(x, attention_norm, eps)),
                                                                positions, eps, window, cache, documents)),
                                          mlp_norm, eps);
    return h + leave_block<S>(feed(enter_block<S>(normed)));
  }
};

template <class S>
class llama : public decoder<S, llama<S>, llama_layer<S>> {
  using base = decoder<S, llama<S>, llama_layer<S>>;

 public:
  using compute = typename S::precision::compute;
  using ids = typename base::ids;

  llama(context& ctx, const llama_config& wanted)
      : llama(ctx, wanted.resolved(ctx.degree<tp>(), self_attention<S>::shares_kv), 0) {}

  const llama_config& config() const { return config_; }

  /// The forward pass that runs: what it needs beside the weights.
  struct pass {
    const llama* model;
    rope_table positions;
    kv_cache* cache;
    std::optional<ids> documents;  // their starts

    auto embed(const ids& tokens) const { return leave_block<S>(embedding(tokens, model->embedding_)); }
    template <any_tensor X>
    auto block(const llama_layer<S>& layer, const X& h) const {
      return layer(h, positions, model->config_.norm_eps, cache, documents ? &*documents : nullptr);
    }
    template <any_tensor X>
    auto head_input(const X& h) const {
      return enter_block<S>(rms_norm(h, model->norm_, model->config_.norm_eps));
    }
    template <any_tensor Table, any_tensor X>
    auto logits(const Table& table, const X& y) const {
      return contract<hidden>(y, table);
    }
  };

 private:
  friend base;

  llama(context& ctx, const llama_config& c, int) : base(ctx, c.layers, c.tied_embeddings), config_(c) {
    if (ctx.check) [[unlikely]]
      detail::compare_configuration(ctx, c);
    parameter_registry& registry = this->registry();
    const double out_stddev =
        c.init_stddev / std::sqrt(2.0 * static_cast<double>(c.layers));  // as GPT-2 scales residual outputs
    this->add_embedding(c.vocab, c.hidden, c.init_stddev, [] {});
    const std::vector<std::int64_t> groups = c.groups_by_layer();
    this->each_layer([&](llama_layer<S>& layer, const std::string& prefix, std::int64_t number) {
      const std::int64_t n_kv_heads = groups[static_cast<std::size_t>(number)],
                         n_heads = n_kv_heads * (c.heads / c.kv_heads);
      layer.window = number < c.window_from ? 0 : c.window;
      registry.add(ctx, layer.attention_norm, prefix + "attention_norm", {1, {c.hidden}}, {0, 1});
      layer.attend.add_to(registry, ctx, prefix, c.hidden, n_heads, n_kv_heads, c.head_dim, c.init_stddev, out_stddev);
      if (c.qk_norm) layer.attend.add_norms_to(registry, ctx, prefix, c.head_dim);
      if (c.qkv_bias) layer.attend.project.add_biases_to(registry, ctx, prefix, n_heads, n_kv_heads, c.head_dim);
      registry.add(ctx, layer.mlp_norm, prefix + "mlp_norm", {1, {c.hidden}}, {0, 1});
      layer.feed.add_to(registry, ctx, prefix, c.hidden, c.ffn, c.init_stddev, out_stddev);
    });
    this->add_head(c.vocab, c.hidden, c.init_stddev, [&] {
      registry.add(ctx, norm_, "norm", {1, {c.hidden}}, {0, 1});
    });
  }

  pass pass_for(const ids& tokens, kv_cache* cache = nullptr) {
    return {this, positions_for(cache ? cache->longest() : tokens.template global_extent<seq>()), cache,
            base::documents_in(tokens, config_.document_end, cache)};
  }
  // Whether the keys of a text are turned as before when it has grown to n tokens.
  bool keys_stay(std::int64_t n) const {
    return config_.rope_scaling.kind != rope_kind::dynamic || n <= config_.rope_scaling.original_max_seq;
  }

  // Made once, but anew for another length of sequence where the scaling depends on that. A pass that is not yet
  // backpropagated keeps its own.
  const rope_table& positions_for(std::int64_t length) {
    if (config_.rope_scaling.kind != rope_kind::dynamic)
      length = config_.max_seq;
    else
      length = std::max(length, config_.rope_scaling.original_max_seq);
    if (positions_.cos && made_for_ == length) return positions_;
    const rope_frequencies turns = frequencies_of(config_.rope_scaling, config_.head_dim, config_.rope_theta, length);
    positions_ = make_rope_table<compute, typename S::backend>(this->ctx(), turns, length);
    made_for_ = length;
    return positions_;
  }

  llama_config config_;
  norm_weight<S, dims<hidden>> norm_;
  rope_table positions_;
  std::int64_t made_for_ = 0;  // tokens
};

}  // namespace weft
