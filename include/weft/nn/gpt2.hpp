// GPT-2 (Radford et al. 2019): LayerNorm before each block, learned positions, GELU, biases, dropout, tied embeddings.
// Invariant: the source is the same for every strategy, and so are the dropout masks; which ranks hold what is in the
// weights' types.
#pragma once

#include <cmath>
#include <vector>

#include <weft/nn/decoder.hpp>
#include <weft/nn/gpt2_layer.hpp>
#include <weft/op/embedding.hpp>
#include <weft/op/view.hpp>

namespace weft {

/// As Hugging Face's GPT2Config: vocab_size, n_positions, n_layer, n_embd, n_head, n_inner, layer_norm_epsilon,
/// initializer_range, tie_word_embeddings. `dropout` is embd_pdrop and resid_pdrop; attn_pdrop, dropout of attention's
/// weights, is not offered.
struct gpt2_config {
  std::int64_t layers = 12, hidden = 768, heads = 12;
  std::int64_t ffn = 0;  // 0: 4 * hidden
  std::int64_t vocab = 50257, max_seq = 1024;
  double dropout = 0.1, norm_eps = 1e-5, init_stddev = 0.02;
  bool tied_embeddings = true;
  /// As llama_config's; behind it positions begin anew as well.
  std::int64_t document_end = -1;

  friend bool operator==(const gpt2_config&, const gpt2_config&) = default;

  /// The configuration with every 0 filled in, checked against the degrees. Throws weft::failure with the way out.
  WEFT_LINKED gpt2_config resolved(int tensor_parallel = 1) const {
    gpt2_config c = *this;
    const auto at_least_one = detail::check_at_least_one;
    at_least_one(c.layers, "layers"), at_least_one(c.hidden, "hidden"), at_least_one(c.heads, "heads");
    at_least_one(c.vocab, "vocab"), at_least_one(c.max_seq, "max_seq");
    detail::check_positive(c.norm_eps, "norm_eps"), detail::check_not_negative(c.init_stddev, "init_stddev");
    require(c.hidden % c.heads == 0, "hidden ", c.hidden, " doesn't divide by ", c.heads,
            " heads; choose heads that divide hidden");
    require(c.dropout >= 0 && c.dropout < 1, "a dropout rate is from 0 to below 1, not ", c.dropout);
    detail::check_document_end(c.document_end, c.vocab);
    if (c.ffn == 0) c.ffn = 4 * c.hidden;
    at_least_one(c.ffn, "ffn");
    const auto divides = [&](std::int64_t n, const char* what) { detail::check_divides(n, what, tensor_parallel); };
    divides(c.heads, "heads"), divides(c.ffn, "ffn");
    return c;
  }

  /// Parameters of the whole model.
  WEFT_LINKED std::int64_t parameters() const {
    const gpt2_config c = resolved();
    const std::int64_t attention = 4 * (c.hidden * c.hidden + c.hidden), feed = 2 * c.hidden * c.ffn + c.ffn + c.hidden,
                       norm = 2 * c.hidden;
    return c.vocab * c.hidden * (c.tied_embeddings ? 1 : 2) + c.max_seq * c.hidden + norm +
           c.layers * (attention + feed + 2 * norm);
  }
};

namespace detail {
[[gnu::cold]] WEFT_LINKED void compare_configuration(context& ctx, const gpt2_config& c) {
  const auto n = [](auto number) { return static_cast<double>(number); };
  compare_configuration(ctx, "gpt2",
                        {{"layers", n(c.layers)},
                         {"hidden", n(c.hidden)},
                         {"heads", n(c.heads)},
                         {"ffn", n(c.ffn)},
                         {"vocab", n(c.vocab)},
                         {"max_seq", n(c.max_seq)},
                         {"dropout", n(c.dropout)},
                         {"norm_eps", n(c.norm_eps)},
                         {"init_stddev", n(c.init_stddev)},
                         {"tied_embeddings", n(c.tied_embeddings)},
                         {"document_end", n(c.document_end)}});
}
}  // namespace detail

/// The positions of the next tokens of a cache's sequences, placed as the tokens are; 0 in a row's padding.
template <any_tensor Ids>
Ids next_positions(const Ids& tokens, const kv_cache& cache) {
  context& ctx = *untyped(tokens).ctx;
  const shape& own = untyped(tokens).held().shape;
  detail::require_of_cache("next_positions", ctx, cache, own[0], own[1]);
  const Ids out = detail::empty_tensor<Ids>(ctx, untyped(tokens).whole, memory::data);
  const std::int64_t n = tokens.template global_extent<seq>();
  detail::write_by_host<typename Ids::backend, std::int32_t>(ctx, untyped(out).data, [&](std::int32_t* to) {
    for (std::int64_t i = 0; i < cache.sequences(); ++i)
      for (std::int64_t t = 0; t < n; ++t)
        *to++ = t < cache.added(i) ? static_cast<std::int32_t>(cache.length(i) + t) : 0;
  });
  return out;
}

/// Dropout applies while the tape records, and the number of recorded passes so far picks its masks.
template <class S>
class gpt2 : public decoder<S, gpt2<S>, gpt2_layer<S>> {
  using base = decoder<S, gpt2<S>, gpt2_layer<S>>;

 public:
  using ids = typename base::ids;

  gpt2(context& ctx, const gpt2_config& wanted) : gpt2(ctx, wanted.resolved(ctx.degree<tp>()), 0) {}

  const gpt2_config& config() const { return config_; }
  /// Passes recorded so far. A run that goes on where another ended sets it to what that one had.
  std::uint64_t recorded_passes() const { return recorded_passes_; }
  void recorded_passes(std::uint64_t n) { recorded_passes_ = n; }

  /// The forward pass that runs: what it needs beside the weights.
  struct pass {
    const gpt2* model;
    dropout_pass drop;
    kv_cache* cache;
    std::optional<ids> documents;  // their starts

    auto embed(const ids& tokens) const {
      const auto x = leave_block<S>(embedding(tokens, model->embedding_));
      if (cache) return x + model->positions_at(next_positions(tokens, *cache));
      if (documents) return drop(x + model->positions_at(document_positions(*documents)), "embedding");
      return drop(x + model->positions_of(tokens), "embedding");
    }
    template <any_tensor X>
    auto block(const gpt2_layer<S>& layer, const X& h) const {
      return layer(h, model->config_.norm_eps, drop, cache, documents ? &*documents : nullptr);
    }
    template <any_tensor Table, any_tensor X>
    auto head(const Table& table, const X& h) const {
      return contract<hidden>(enter_block<S>(model->norm_(h, model->config_.norm_eps)), table);
    }
  };

 private:
  friend base;

  gpt2(context& ctx, const gpt2_config& c, int) : base(ctx, c.layers, c.tied_embeddings), config_(c) {
    if (ctx.check) [[unlikely]]
      detail::compare_configuration(ctx, c);
    parameter_registry& registry = this->registry_;
    const double out_stddev = c.init_stddev / std::sqrt(2.0 * static_cast<double>(c.layers));
    this->add_embedding(c.vocab, c.hidden, c.init_stddev, [&] {
      registry.add(ctx, positions_, "positions", {2, {c.max_seq, c.hidden}}, {c.init_stddev});
    });
    this->each_layer([&](gpt2_layer<S>& layer, const std::string& prefix) {
      layer.add_to(registry, ctx, prefix, c.hidden, c.heads, c.ffn, c.init_stddev, out_stddev);
    });
    this->add_head(c.vocab, c.hidden, c.init_stddev, [&] { norm_.add_to(registry, ctx, "norm", c.hidden); });
  }

  pass pass_for(const ids& tokens, kv_cache* cache = nullptr) {
    return {this, this->ctx().tape ? dropout_pass{config_.dropout, recorded_passes_++} : dropout_pass{}, cache,
            base::documents_in(tokens, config_.document_end, cache)};
  }

  /// The positions of a sequence, of which each rank takes its own where the sequence is sharded.
  auto positions_of(const ids& tokens) const {
    const auto all = slice<seq>(positions_, 0, tokens.template global_extent<seq>());  // [seq, hidden]
    if constexpr (S::sequence_parallel)
      return split<seq, tp>(all);
    else
      return all;
  }

  /// Those of tokens that don't count from the sequence's first: behind what a cache has, or in documents.
  auto positions_at(const ids& at) const {
    const auto all = embedding(at, positions_);  // [batch, seq, hidden]
    if constexpr (S::sequence_parallel)
      return split<seq, tp>(all);
    else
      return all;
  }

  gpt2_config config_;
  norm_weight<S, dims<seq, hidden>> positions_;
  layer_norm_weights<S> norm_;
  std::uint64_t recorded_passes_ = 0;
};

}  // namespace weft
