// GPT-2 (Radford et al. 2019): LayerNorm before each block, learned positions, GELU, biases, dropout, tied embeddings.
// Invariant: the source is the same for every strategy, and so are the dropout masks; which ranks hold what is in the
// weights' types.
#pragma once

#include <cmath>
#include <vector>

#include <weft/nn/decoder.hpp>
#include <weft/nn/gpt2_layer.hpp>
#include <weft/nn/layer_groups.hpp>
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
  weft::layer_groups layer_groups = {};  // heads of each layer that is pruned, of hidden / heads; empty: heads in all

  friend bool operator==(const gpt2_config&, const gpt2_config&) = default;

  /// The configuration with every 0 filled in, checked against the degrees. Throws weft::failure with the way out.
  WEFT_LINKED gpt2_config resolved(int tensor_parallel = 1) const {
    gpt2_config c = *this;
    const auto size = detail::check_size;
    size(c.layers, "layers"), size(c.hidden, "hidden"), size(c.heads, "heads");
    size(c.vocab, "vocab"), size(c.max_seq, "max_seq");
    detail::check_positive(c.norm_eps, "norm_eps"), detail::check_not_negative(c.init_stddev, "init_stddev");
    require(c.hidden % c.heads == 0, "hidden ", c.hidden, " doesn't divide by ", c.heads,
            " heads; choose heads that divide hidden");
    require(c.dropout >= 0 && c.dropout < 1, "a dropout rate is from 0 to below 1, not ", c.dropout);
    detail::check_document_end(c.document_end, c.vocab);
    if (c.ffn == 0) c.ffn = 4 * c.hidden;
    size(c.ffn, "ffn");
    const auto divides = [&](std::int64_t n, const char* what) { detail::check_divides(n, what, tensor_parallel); };
    detail::check_layer_groups(c.layer_groups, c.layers, c.heads, tensor_parallel);
    if (c.layer_groups.empty()) divides(c.heads, "heads");
    divides(c.ffn, "ffn");
    return c;
  }

  /// Heads of each layer.
  WEFT_LINKED std::vector<std::int64_t> groups_by_layer() const {
    const gpt2_config c = resolved();
    return detail::groups_of_layers(c.layer_groups, c.layers, c.heads);
  }

  /// The configuration with so many in each layer.
  WEFT_LINKED gpt2_config with_groups(const std::vector<std::int64_t>& groups) const {
    gpt2_config c = resolved();
    c.layer_groups = groups;
    if (std::count(groups.begin(), groups.end(), c.heads) == std::ssize(groups)) c.layer_groups = {};
    return c.resolved();
  }

  /// Parameters of the whole model.
  WEFT_LINKED std::int64_t parameters() const {
    const gpt2_config c = resolved();
    const std::int64_t of_head = c.hidden / c.heads * (4 * c.hidden + 3),
                       feed = 2 * c.hidden * c.ffn + c.ffn + c.hidden, norm = 2 * c.hidden;
    std::int64_t heads_of_all = 0;
    for (const std::int64_t n : groups_by_layer()) heads_of_all += n;
    return c.vocab * c.hidden * (c.tied_embeddings ? 1 : 2) + c.max_seq * c.hidden + norm + heads_of_all * of_head +
           c.layers * (c.hidden + feed + 2 * norm);
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
                         {"document_end", n(c.document_end)},
                         {"numbers in layer_groups", n(c.layer_groups.size())}});
  compare_layer_groups(ctx, "gpt2", c.layer_groups);
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

  /// The forward pass that runs: what it needs beside the weights.
  struct pass {
    const gpt2* model;
    kv_cache* cache;
    std::optional<ids> documents;  // their starts

    auto embed(const ids& tokens) const {
      const auto x = leave_block<S>(embedding(tokens, model->embedding_));
      if (cache) return x + model->positions_at(next_positions(tokens, *cache));
      const double rate = model->config_.dropout;
      if (documents)
        return training_dropout(x + model->positions_at(document_positions(*documents)), rate, "embedding");
      return training_dropout(x + model->positions_of(tokens), rate, "embedding");
    }
    template <any_tensor X>
    auto block(const gpt2_layer<S>& layer, const X& h) const {
      return layer(h, model->config_.norm_eps, model->config_.dropout, cache, documents ? &*documents : nullptr);
    }
    template <any_tensor X>
    auto head_input(const X& h) const {
      return enter_block<S>(model->norm_(h, model->config_.norm_eps));
    }
    template <any_tensor Table, any_tensor X>
    auto logits(const Table& table, const X& y) const {
      return contract<hidden>(y, table);
    }
  };

 private:
  friend base;

  gpt2(context& ctx, const gpt2_config& c, int) : base(ctx, c.layers, c.tied_embeddings), config_(c) {
    if (ctx.check) [[unlikely]]
      detail::compare_configuration(ctx, c);
    parameter_registry& registry = this->registry();
    const double out_stddev = c.init_stddev / std::sqrt(2.0 * static_cast<double>(c.layers));
    this->add_embedding(c.vocab, c.hidden, c.init_stddev, [&] {
      registry.add(ctx, positions_, "positions", {2, {c.max_seq, c.hidden}}, {c.init_stddev});
    });
    const std::vector<std::int64_t> groups = c.groups_by_layer();
    this->each_layer([&](gpt2_layer<S>& layer, const std::string& prefix, std::int64_t number) {
      layer.add_to(registry, ctx, prefix, c.hidden, groups[static_cast<std::size_t>(number)], c.hidden / c.heads, c.ffn,
                   c.init_stddev, out_stddev);
    });
    this->add_head(c.vocab, c.hidden, c.init_stddev, [&] { norm_.add_to(registry, ctx, "norm", c.hidden); });
  }

  pass pass_for(const ids& tokens, kv_cache* cache = nullptr) {
    return {this, cache, base::documents_in(tokens, config_.document_end, cache)};
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
};

}  // namespace weft
