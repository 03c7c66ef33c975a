// A decoder's passes: whole sequences, and a text's next tokens with a cache, over the stages that have its units.
// Invariant: what a pass computes doesn't depend on how the layers lie on stages, nor on what a cache has kept.
#pragma once

#include <atomic>
#include <optional>
#include <span>

#include <weft/core/finite.hpp>
#include <weft/nn/decoder_units.hpp>
#include <weft/op/create.hpp>
#include <weft/op/documents.hpp>
#include <weft/op/kv_cache.hpp>
#include <weft/op/require_ids.hpp>
#include <weft/op/send_receive.hpp>
#include <weft/tensor/consistency.hpp>

namespace weft {

/// Base of a decoder with layers of type Layer, whose tables are its own. The model M gives `pass_for(tokens)`, an
/// object that is copied where something runs again for its backward, with `embed(tokens)`, `block(layer, h)` and
/// `head(table, h)`; or, in place of that, `head_input(h)`, which has the sequence whole, and `logits(table, y)` of it.
template <class S, class M, class Layer>
class decoder : public decoder_units<S, Layer> {
  using units = decoder_units<S, Layer>;

 public:
  using ids = token_ids<S>;
  using units::ctx, units::registry, units::run_layers, units::head;

  /// Passes recorded so far: they number the masks of dropout. A run that goes on where another ended sets it to what
  /// that one had.
  std::uint64_t recorded_passes() const { return recorded_passes_; }
  void recorded_passes(std::uint64_t n) { recorded_passes_ = n; }

  /// tokens [batch/dp, seq] -> logits [batch/dp, seq, vocab/tp], on every stage. Throws when the sequence is longer
  /// than max_seq, when a token is not in the vocabulary, and when a model of several stages is recorded: that takes a
  /// schedule (`pipeline`).
  auto operator()(const ids& tokens) {
    const auto pass = begin_pass(tokens);
    return logits(pass, through_layers(pass, tokens));
  }

  /// Logits of tokens [batch/dp, n] that go on where `cache` ends, and are kept there: of row i the first given[i], all
  /// where nothing is said; the rest of a row may be any tokens. Records nothing. Throws where a sequence has no room
  /// for them, or would have more than max_seq.
  auto decode(const ids& tokens, kv_cache& cache, std::span<const std::int64_t> given = {}) {
    return with_cache(tokens, cache, given, [&](const auto& pass, auto x) { return logits(pass, std::move(x)); });
  }
  /// The same without logits: of a prompt, say, but for its last token.
  void prefill(const ids& tokens, kv_cache& cache, std::span<const std::int64_t> given = {}) {
    with_cache(tokens, cache, given, [](const auto&, const auto&) {});
  }
  /// Whether the model's pass_for takes a cache.
  static constexpr bool reads_by_token() { return has_cache<M>; }
  /// Whether a cache has what a text of n tokens needs: false where it is longer than max_seq, and where the model
  /// reads the whole text anew.
  bool keeps(std::int64_t n) const {
    if constexpr (requires(const M& m) { m.keys_stay(n); })
      if (!model().keys_stay(n)) return false;
    return has_cache<M> && n <= model().config().max_seq;
  }
  /// Whether what a cache keeps is of this model, with its weights of now.
  bool kept_in(const kv_cache& cache) const { return cache.belongs_to(number_, version()); }

  // The parts of a pass, for who runs a stage.
  auto begin_pass(const ids& tokens) {
    require_readable(tokens, tokens.template global_extent<seq>());
    const std::int64_t number = ctx().tape ? static_cast<std::int64_t>(model().recorded_passes()) : -1;
    const auto pass = numbered(model().pass_for(tokens), number);
    if (number >= 0) ++recorded_passes_;
    return pass;
  }
  /// tokens [batch/dp, seq] -> what a chunk's layers begin with: the embedding, or what the stage before sends from
  /// another rank. [batch/dp, seq, hidden], sequence-parallel [batch/dp, seq/tp, hidden].
  template <class Pass>
  auto stage_input(const Pass& pass, const ids& tokens, int chunk = 0) {
    if constexpr (S::mesh::template has<pp>) {
      const stage_place& at = stages_[chunk];
      if (!at.first())
        return receive<movement::shift, decltype(pass.of.embed(tokens))>(ctx(), sizes(tokens, model().config().hidden),
                                                                         at.index - 1, at.before);
    }
    return embed(pass, tokens);
  }

 protected:
  using units::stages_, units::embed;
  decoder(context& c, std::int64_t layers, bool tied) : units(c, layers, tied) {}

  /// Where the documents begin that the token `end` ends: none where that is -1, and where a text is generated, which
  /// is one document.
  static std::optional<ids> documents_in(const ids& tokens, std::int64_t end, const kv_cache* cache) {
    if (end < 0 || cache || untyped(tokens).ctx->one_document) return std::nullopt;
    if constexpr (detail::marks_documents<typename ids::backend>)
      return document_starts(tokens, end);
    else
      fail("document_end is ", end, ", and the backend lacks each_line, the loop that finds documents");
  }

 private:
  template <class Pass>
  static detail::numbered_pass<Pass> numbered(Pass pass, std::int64_t number) {
    return {std::move(pass), number};
  }
  M& model() { return static_cast<M&>(*this); }
  const M& model() const { return static_cast<const M&>(*this); }
  // Of all data-parallel ranks, for a tensor over these tokens that is `width` wide.
  static shape sizes(const ids& tokens, std::int64_t width) {
    return {3, {tokens.template global_extent<batch>(), tokens.template global_extent<seq>(), width}};
  }

  void require_readable(const ids& tokens, std::int64_t n) const {
    this->stored();
    const std::int64_t most = model().config().max_seq;
    require(n <= most, "a sequence of ", n, " tokens is longer than max_seq = ", most);
    require_ids(tokens, 0, model().config().vocab, "the token");
  }

  template <class Own>
  static constexpr bool has_cache = requires(Own& m, const ids& tokens, kv_cache* cache) {
    m.pass_for(tokens, cache);
  }
  &&!requires(Own & m, const ids& tokens) { m.pass_for(tokens, true); };  // a pointer is a bool as well
  template <class F>
  auto with_cache(const ids& tokens, kv_cache& cache, std::span<const std::int64_t> given, F&& then) {
    static_assert(has_cache<M>,
                  "weft: the model reads no cache: its pass_for(tokens, cache) gives a pass whose attention(q, k, v, "
                  "{.cache = cache}) and rope(x, table, cache) take it (docs/own_model.md)");
    const no_grad off(ctx());
    std::vector<std::int64_t> all;
    if (given.empty()) {
      all.assign(static_cast<std::size_t>(cache.sequences()), tokens.template global_extent<seq>());
      given = all;
    }
    cache.belong_to(number_, version());
    cache.begin_pass(given);
    const shape& own = untyped(tokens).held().shape;
    detail::require_of_cache("decode", ctx(), cache, own[0], own[1]);
    require_readable(tokens, cache.longest());
    require(keeps(cache.longest()), "the model turns the keys of a text of ", cache.longest(),
            " tokens otherwise than those of a shorter one, so none can be kept: read the whole text by model(tokens)");
    const auto pass = numbered(model().pass_for(tokens, &cache), -1);
    if constexpr (std::is_void_v<decltype(then(pass, through_layers(pass, tokens)))>) {
      then(pass, through_layers(pass, tokens));
      end_pass(cache);
    } else {
      auto out = then(pass, through_layers(pass, tokens));
      end_pass(cache);
      return out;
    }
  }

  void end_pass(kv_cache& cache) {
    require(
        cache.layers() > 0 || this->layers_.empty(),
        "no layer of the model gave its kv_cache to attention: its blocks call attention(q, k, v, {.cache = cache})");
    cache.end_pass();
  }
  // Changes when a weight does.
  std::uint64_t version() const {
    std::uint64_t sum = 0;
    for (const parameter_unit& u : registry().units())
      for (const parameter_record& p : u.parameters) sum += p.live->version;
    return sum;
  }

  // Behind the last layer, on the rank that has it. Over several stages each in turn, one micro-batch.
  template <class Pass>
  auto through_layers(const Pass& pass, const ids& tokens) {
    if constexpr (S::mesh::template has<pp>)
      if (ctx().template degree<pp>() > 1) return over_stages(pass, tokens);
    auto x = embed(pass, tokens);
    for (int v = 0; v < stages_.count(); ++v) x = run_layers(pass, std::move(x), stages_.chunk_at(v));
    return x;
  }
  template <class Pass>
  auto over_stages(const Pass& pass, const ids& tokens) {
    require(ctx().tape == nullptr, "the model's layers lie on ", stages_.count(),
            " pipeline stages, which take turns in training: use a trainer or weft::pipeline, or call it while nothing "
            "is recorded");
    decltype(embed(pass, tokens)) x;
    for (int v = 0; v < stages_.count(); ++v) {
      const int c = stages_.chunk_at(v);
      if (c < 0) continue;
      const stage_place& at = stages_[c];
      if (at.first() || at.before != at.rank) x = stage_input(pass, tokens, c);
      x = run_layers(pass, std::move(x), c);
      if (!at.last() && at.after != at.rank) send<movement::shift>(x, at.index, at.after).wait(ctx().order());
    }
    return x;
  }
  // On every stage: the last one gives them to all.
  template <class Pass, any_tensor X>
  auto logits(const Pass& pass, const X& x) {
    using result = decltype(head(pass, x));
    if constexpr (S::mesh::template has<pp>)
      if (ctx().template degree<pp>() > 1) {
        const shape all{3,
                        {x.template global_extent<batch>(), x.template global_extent<seq>(), model().config().vocab}};
        result y = stages_.has_last() ? head(pass, x) : detail::empty_tensor<result>(ctx(), all);
        ctx()
            .along(id_of<pp>)
            .comm
            .broadcast(untyped(y).data.data, untyped(y).data.bytes(), stages_.rank_of(stages_.count() - 1),
                       ctx().label("logits"))
            .wait(ctx().order());
        return y;
      }
    return head(pass, x);
  }

  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  std::uint64_t number_ = next_number();  // no other model's of this type, in whatever place
  std::uint64_t recorded_passes_ = 0;
};

namespace detail {

/// A model's size. Some of them are multiplied before memory is asked for: 64 bits hold the product of two.
inline void check_size(std::int64_t n, const char* what) {
  require(n >= 1, what, " is ", n, "; it has to be at least 1");
  require(n <= std::int64_t{1} << 30, what, " is ", n, "; it has to be at most 2^30");
}
inline void check_positive(double x, const char* what) {
  require(is_finite(x) && x > 0, what, " is ", x, "; it has to be a finite number above 0");
}
inline void check_not_negative(double x, const char* what) {
  require(is_finite(x) && x >= 0, what, " is ", x, "; it has to be a finite number, at least 0");
}
inline void check_divides(std::int64_t n, const char* what, int tensor_parallel) {
  require(n % tensor_parallel == 0, n, " ", what, " don't divide among tp = ", tensor_parallel, " ranks; choose tp or ",
          what, " so that they do");
}

inline void check_document_end(std::int64_t end, std::int64_t vocab) {
  require(end >= -1 && end < vocab, "document_end is ", end, "; it is one of the vocabulary's ", vocab,
          " tokens, which count from 0, or -1 for none");
}

/// A model's configuration is the same on all ranks. ctx.check is not null.
inline void compare_configuration(context& ctx, const char* model, const std::vector<named_number>& numbers) {
  if (ctx.size() > 1) ctx.check->compare(ctx.world, "the world", {model, "configuration"}, numbers);
}

}  // namespace detail
}  // namespace weft
