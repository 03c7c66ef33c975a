// What every decoder has: the token tables, its layers in order, and who owns the weights' memory. Layers are a
// dimension that a pipeline shards over pp: a virtual stage has its own of them, the first the embedding, the last the
// head; a rank has one for each chunk that the schedule gives it. Invariant: a unit's weights are resident exactly
// while it runs; tied embeddings are used in the first unit and, within the last, in the first once more.
#pragma once

#include <atomic>
#include <optional>
#include <span>

#include <weft/autograd/checkpoint.hpp>
#include <weft/comm/consistency.hpp>
#include <weft/core/finite.hpp>
#include <weft/nn/parameters.hpp>
#include <weft/nn/stages.hpp>
#include <weft/nn/weight.hpp>
#include <weft/op/create.hpp>
#include <weft/op/documents.hpp>
#include <weft/op/kv_cache.hpp>
#include <weft/op/require_ids.hpp>
#include <weft/op/send_receive.hpp>

namespace weft {

/// Base of a decoder with layers of type Layer, whose tables are its own. The model M gives `pass_for(tokens)`, an
/// object that is copied where something runs again for its backward, with `embed(tokens)`, `block(layer, h)` and
/// `head(table, h)`.
template <class S, class M, class Layer>
class decoder {
 public:
  using strategy = S;
  using compute = typename S::precision::compute;
  using ids = token_ids<S>;

  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;

  context& ctx() const { return *ctx_; }
  parameter_registry& registry() { return registry_; }
  /// The virtual stages that this rank has, by chunk.
  const stage_places& stages() const { return stages_; }
  void use(unit_hooks& hooks) { hooks_ = &hooks; }
  /// Says that the parameter store is gone, and with it the weights.
  void release() { hooks_ = nullptr; }

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

  // The parts of a pass, for who runs a stage.
  auto begin_pass(const ids& tokens) {
    require_readable(tokens, tokens.template global_extent<seq>());
    return model().pass_for(tokens);
  }
  /// tokens [batch/dp, seq] -> what a chunk's layers begin with: the embedding, or what the stage before sends from
  /// another rank. [batch/dp, seq, hidden], sequence-parallel [batch/dp, seq/tp, hidden].
  template <class Pass>
  auto stage_input(const Pass& pass, const ids& tokens, int chunk = 0) {
    if constexpr (S::mesh::template has<pp>) {
      const stage_place& at = stages_[chunk];
      if (!at.first())
        return receive<movement::shift, decltype(pass.embed(tokens))>(*ctx_, sizes(tokens, model().config().hidden),
                                                                      at.index - 1, at.before);
    }
    return embed(pass, tokens);
  }
  /// x through a chunk's layers, placed alike.
  template <class Pass, any_tensor X>
  X run_layers(const Pass& pass, X x, int chunk = 0) {
    std::size_t n = stages_.layers_before(chunk);
    const std::size_t end = stages_.layers_before(chunk + 1);
    int unit = first_layer_unit_ + static_cast<int>(n);
    for (; n < end; ++n) {
      const Layer& layer = layers_[n];
      const auto run = [pass, &layer](const auto& h) { return pass.block(layer, h); };
      x = in_unit(
          *ctx_, *hooks_, unit++,
          [&](const auto& h) {
            if constexpr (S::checkpointing::recomputes)
              return checkpoint<typename S::checkpointing>(run, h);
            else
              return run(h);
          },
          x);
    }
    return x;
  }
  /// On the last virtual stage's rank: logits.
  template <class Pass, any_tensor X>
  auto head(const Pass& pass, const X& x) {
    return in_unit(
        *ctx_, *hooks_, head_unit_,
        [&](const auto& h) {
          if (!tied_) return pass.head(head_, h);
          return in_unit(
              *ctx_, *hooks_, embedding_unit_, [&](const auto& in) { return pass.head(embedding_, in); }, h);
        },
        x);
  }

 protected:
  using table = weight<S, dims<vocab, hidden>, shard<vocab, tp>>;

  decoder(context& ctx, std::int64_t layers, bool tied)
      : ctx_(&ctx),
        stages_(stages_of<typename S::schedule>(ctx, layers)),
        tied_(tied),
        layers_(stages_.layers_before(stages_.chunks())) {
    if (ctx.degree<pp>() > 1) registry_.held_by_stages(id_of<pp>);
  }

  /// Makes the embedding's unit where this rank needs it; `others()` adds what else is in it. Of tied embeddings the
  /// last stage has a copy of the unit, unless the first is on its rank: it begins with the same numbers, and the
  /// gradients of both are added up before each step.
  template <class F>
  void add_embedding(std::int64_t rows, std::int64_t width, double stddev, F&& others) {
    const bool copied = tied_ && tables_apart();
    if (!stages_.has_first() && !(copied && stages_.has_last())) return;
    registry_.set_chunk(stages_.chunk_at(stages_.has_first() ? 0 : stages_.count() - 1));
    embedding_unit_ = registry_.begin_unit("embedding");
    registry_.add(*ctx_, embedding_, "embedding", {2, {rows, width}}, {stddev});
    others();
    freeze_all_but_adapters();
    if (!copied) return;
    for (parameter_record& r : registry_.units().back().parameters) {
      r.pending.push_back(id_of<pipeline_ends>);
      r.counted = stages_.has_first();
    }
  }
  /// f(layer, its parameters' prefix) for each layer of this rank, chunk by chunk, in a unit of its own.
  template <class F>
  void each_layer(F&& f) {
    first_layer_unit_ = static_cast<int>(registry_.units().size());
    std::size_t n = 0;
    for (int c = 0; c < stages_.chunks(); ++c) {
      registry_.set_chunk(c);
      for (std::int64_t i = stages_[c].begin; i < stages_[c].end; ++i) {
        const std::string number = std::to_string(i);
        registry_.begin_unit("layer " + number);
        f(layers_[n++], "layers." + number + ".");
        freeze_all_but_adapters();
      }
    }
  }
  /// Begins the head's unit where this rank has the last stage; `norms()` adds what comes before its table.
  template <class F>
  void add_head(std::int64_t rows, std::int64_t width, double stddev, F&& norms) {
    if (!stages_.has_last()) return;
    registry_.set_chunk(stages_.chunk_at(stages_.count() - 1));
    head_unit_ = registry_.begin_unit("head");
    norms();
    if (!tied_) registry_.add(*ctx_, head_, "head", {2, {rows, width}}, {stddev});
    freeze_all_but_adapters();
  }

  /// Where the documents begin that the token `end` ends: none where that is -1, and with a cache, each sequence of
  /// which is one document.
  static std::optional<ids> documents_in(const ids& tokens, std::int64_t end, const kv_cache* cache) {
    if (end < 0 || cache) return std::nullopt;
    if constexpr (detail::marks_documents<typename ids::backend>)
      return document_starts(tokens, end);
    else
      fail("document_end is ", end, ", and the backend lacks each_line, the loop that finds documents");
  }

  table embedding_;
  parameter_registry registry_;

 private:
  // Of the newest unit, where the strategy's projections are adapted.
  void freeze_all_but_adapters() {
    if constexpr (S::projections::adapts)
      for (parameter_record& r : registry_.units().back().parameters)
        if (!r.adapter) r.freeze();
  }
  M& model() { return static_cast<M&>(*this); }
  const M& model() const { return static_cast<const M&>(*this); }
  template <class Pass>
  auto embed(const Pass& pass, const ids& tokens) {
    return in_unit(
        *ctx_, *hooks_, embedding_unit_, [&](const ids& t) { return pass.embed(t); }, tokens);
  }
  // Of all data-parallel ranks, for a tensor over these tokens that is `width` wide.
  static shape sizes(const ids& tokens, std::int64_t width) {
    return {3, {tokens.template global_extent<batch>(), tokens.template global_extent<seq>(), width}};
  }

  void require_readable(const ids& tokens, std::int64_t n) const {
    require(hooks_ != nullptr,
            "the model has no parameter store: make a trainer or a parameter_store for it, and keep that as long as "
            "the model is used");
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
    const no_grad off(*ctx_);
    std::vector<std::int64_t> all;
    if (given.empty()) {
      all.assign(static_cast<std::size_t>(cache.sequences()), tokens.template global_extent<seq>());
      given = all;
    }
    cache.belong_to(number_, version());
    cache.begin_pass(given);
    const shape& own = untyped(tokens).held().shape;
    detail::require_of_cache("decode", *ctx_, cache, own[0], own[1]);
    require_readable(tokens, cache.longest());
    require(keeps(cache.longest()), "the model turns the keys of a text of ", cache.longest(),
            " tokens otherwise than those of a shorter one, so none can be kept: read the whole text by model(tokens)");
    const auto pass = model().pass_for(tokens, &cache);
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
        cache.layers() > 0 || layers_.empty(),
        "no layer of the model gave its kv_cache to attention: its blocks call attention(q, k, v, {.cache = cache})");
    cache.end_pass();
  }
  // Changes when a weight does.
  std::uint64_t version() const {
    std::uint64_t sum = 0;
    for (const parameter_unit& u : registry_.units())
      for (const parameter_record& p : u.parameters) sum += p.live->version;
    return sum;
  }

  // Behind the last layer, on the rank that has it. Over several stages each in turn, one micro-batch.
  template <class Pass>
  auto through_layers(const Pass& pass, const ids& tokens) {
    if constexpr (S::mesh::template has<pp>)
      if (ctx_->degree<pp>() > 1) return over_stages(pass, tokens);
    auto x = embed(pass, tokens);
    for (int v = 0; v < stages_.count(); ++v) x = run_layers(pass, std::move(x), stages_.chunk_at(v));
    return x;
  }
  template <class Pass>
  auto over_stages(const Pass& pass, const ids& tokens) {
    require(ctx_->tape == nullptr, "the model's layers lie on ", stages_.count(),
            " pipeline stages, which take turns in training: use a trainer or weft::pipeline, or call it while nothing "
            "is recorded");
    decltype(embed(pass, tokens)) x;
    for (int v = 0; v < stages_.count(); ++v) {
      const int c = stages_.chunk_at(v);
      if (c < 0) continue;
      const stage_place& at = stages_[c];
      if (at.first() || at.before != at.rank) x = stage_input(pass, tokens, c);
      x = run_layers(pass, std::move(x), c);
      if (!at.last() && at.after != at.rank) send<movement::shift>(x, at.index, at.after).wait(ctx_->order());
    }
    return x;
  }
  // On every stage: the last one gives them to all.
  template <class Pass, any_tensor X>
  auto logits(const Pass& pass, const X& x) {
    using result = decltype(head(pass, x));
    if constexpr (S::mesh::template has<pp>)
      if (ctx_->degree<pp>() > 1) {
        const shape all{3,
                        {x.template global_extent<batch>(), x.template global_extent<seq>(), model().config().vocab}};
        result y = stages_.has_last() ? head(pass, x) : detail::empty_tensor<result>(*ctx_, all);
        ctx_->along(id_of<pp>)
            .comm
            .broadcast(untyped(y).data.data, untyped(y).data.bytes(), stages_.rank_of(stages_.count() - 1),
                       ctx_->label("logits"))
            .wait(ctx_->order());
        return y;
      }
    return head(pass, x);
  }

  // Whether embedding and head lie on two ranks. Tied ones are summed between the pipeline's ends then.
  bool tables_apart() const {
    const int first = stages_.rank_of(0), last = stages_.rank_of(stages_.count() - 1);
    require(
        first == last || (std::min(first, last) == 0 && std::max(first, last) == ctx_->degree<pp>() - 1),
        "the schedule ", std::string_view(S::schedule::name), " has its first virtual stage on rank ", first,
        " of pp and its last on rank ", last,
        ", so embeddings can't be tied: only pp's first and last rank sum theirs; give the model a head of its own");
    return first != last;
  }

  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  context* ctx_;
  std::uint64_t number_ = next_number();  // no other model's of this type, in whatever place
  unit_hooks* hooks_ = nullptr;
  stage_places stages_;
  bool tied_;
  int embedding_unit_ = 0, first_layer_unit_ = 0, head_unit_ = 0;

 protected:
  std::vector<Layer> layers_;
  table head_;
};

namespace detail {

inline void check_at_least_one(std::int64_t n, const char* what) {
  require(n >= 1, what, " is ", n, "; it has to be at least 1");
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
