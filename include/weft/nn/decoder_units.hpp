// The units of a decoder on this rank: the token tables and its layers in order, how they are registered and where they
// run. Layers are a dimension that a pipeline shards over pp: a virtual stage has its own of them, the first the
// embedding, the last the head; a rank has one for each chunk that the schedule gives it. Invariant: a unit's weights
// are resident exactly while it runs; tied embeddings are used in the first unit and, within the last, in the first
// once more.
#pragma once

#include <weft/autograd/checkpoint.hpp>
#include <weft/nn/head.hpp>
#include <weft/nn/loss_in_chunks.hpp>
#include <weft/nn/model_base.hpp>
#include <weft/nn/stages.hpp>

namespace weft {

namespace detail {
/// A model's pass, and its number among the recorded ones; -1: it isn't recorded.
template <class Pass>
struct numbered_pass {
  Pass of;
  std::int64_t number;
};
}  // namespace detail

/// What a decoder with layers of type Layer holds, and the parts of a pass that run on one stage.
template <class S, class Layer>
class decoder_units : public model_base<S> {
 public:
  using ids = token_ids<S>;
  using model_base<S>::ctx, model_base<S>::registry;

  /// The virtual stages that this rank has, by chunk.
  const stage_places& stages() const { return stages_; }

  /// x through a chunk's layers, placed alike.
  template <class Pass, any_tensor X>
  X run_layers(const Pass& pass, X x, int chunk = 0) {
    const scoped_value<std::int64_t> now(ctx().pass, pass.number);
    std::size_t n = stages_.layers_before(chunk);
    const std::size_t end = stages_.layers_before(chunk + 1);
    int unit = first_layer_unit_ + static_cast<int>(n);
    for (; n < end; ++n) {
      const Layer& layer = layers_[n];
      const auto run = [of = pass.of, &layer](const auto& h) { return of.block(layer, h); };
      x = run_unit(
          unit++,
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
    const scoped_value<std::int64_t> now(ctx().pass, pass.number);
    return run_unit(
        head_unit_,
        [&](const auto& h) {
          return with_table([&](const table& t, const auto& in) { return detail::logits_by(pass.of, t, in); }, h);
        },
        x);
  }
  /// There too: objective(logits, targets), a loss, in the chunks of the sequence that the strategy says, so that
  /// logits are there a chunk at a time (loss_in_chunks). `objective` outlives the backward.
  template <class Pass, any_tensor X, any_tensor Y, class Loss>
  auto head_loss(const detail::numbered_pass<Pass>& pass, const X& x, const Y& targets, const Loss& objective) {
    const scoped_value<std::int64_t> now(ctx().pass, pass.number);
    constexpr bool whole = detail::has_head_input<Pass, X> || shard_axes<layout_of<X>, seq>::size == 0;
    static_assert(whole,
                  "weft: chunked_loss cuts the head's input along seq, which is sharded here (sequence_parallel): give "
                  "the model's pass head_input(h), with norm and enter_block<S>, and logits(table, y) in place of "
                  "head(table, h), or leave one of the two out of the strategy");
    using result = std::remove_cvref_t<decltype(objective(head(pass, x), targets))>;
    result out;
    [[maybe_unused]] const auto in_chunks = [&](const table& t, const auto& y) {
      const auto one = [of = pass.of, &t, &objective](const auto& part, const auto& of_part) {
        if constexpr (detail::has_head_input<Pass, X>)
          return objective(of.logits(t, part), of_part);
        else
          return objective(of.head(t, part), of_part);
      };
      result l = loss_in_chunks<seq>(S::loss::loss_chunks, one, y, targets);
      out.count = std::move(l.count);
      return std::move(l.sum);
    };
    if constexpr (whole)
      out.sum = run_unit(
          head_unit_,
          [&](const auto& h) {
            if constexpr (detail::has_head_input<Pass, X>)
              return with_table(in_chunks, detail::promoted_head_input<Pass, table>(pass.of.head_input(h)));
            else
              return with_table(in_chunks, h);
          },
          x);
    return out;
  }

 protected:
  using table = weight<S, dims<vocab, hidden>, shard<vocab, tp>>;

  decoder_units(context& c, std::int64_t layers, bool tied)
      : model_base<S>(c),
        stages_(stages_of<typename S::schedule>(c, layers)),
        layers_(stages_.layers_before(stages_.chunks())),
        tied_(tied) {
    if (c.degree<pp>() > 1) registry().held_by_stages(id_of<pp>);
  }

  /// Makes the embedding's unit where this rank needs it; `others()` adds what else is in it. Of tied embeddings the
  /// last stage has a copy of the unit, unless the first is on its rank: it begins with the same numbers, and the
  /// gradients of both are added up before each step.
  template <class F>
  void add_embedding(std::int64_t rows, std::int64_t width, double stddev, F&& others) {
    const bool copied = tied_ && tables_apart();
    if (!stages_.has_first() && !(copied && stages_.has_last())) return;
    registry().set_chunk(stages_.chunk_at(stages_.has_first() ? 0 : stages_.count() - 1));
    embedding_unit_ = registry().begin_unit("embedding");
    registry().add(ctx(), embedding_, "embedding", {2, {rows, width}}, {stddev});
    others();
    freeze_all_but_adapters();
    if (!copied) return;
    for (parameter_record& r : registry().units().back().parameters) {
      r.pending.push_back(id_of<pipeline_ends>);
      r.counted = stages_.has_first();
    }
  }
  /// f(layer, its parameters' prefix) for each layer of this rank, chunk by chunk, in a unit of its own; or f(layer,
  /// prefix, its number among all stages' layers).
  template <class F>
  void each_layer(F&& f) {
    first_layer_unit_ = static_cast<int>(registry().units().size());
    std::size_t n = 0;
    for (int c = 0; c < stages_.chunks(); ++c) {
      registry().set_chunk(c);
      for (std::int64_t i = stages_[c].begin; i < stages_[c].end; ++i) {
        const std::string number = std::to_string(i);
        registry().begin_unit("layer " + number);
        if constexpr (std::invocable<F&, Layer&, std::string, std::int64_t>)
          f(layers_[n++], "layers." + number + ".", i);
        else
          f(layers_[n++], "layers." + number + ".");
        freeze_all_but_adapters();
      }
    }
  }
  /// Begins the head's unit where this rank has the last stage; `norms()` adds what comes before its table.
  template <class F>
  void add_head(std::int64_t rows, std::int64_t width, double stddev, F&& norms) {
    if (!stages_.has_last()) return;
    registry().set_chunk(stages_.chunk_at(stages_.count() - 1));
    head_unit_ = registry().begin_unit("head");
    norms();
    if (!tied_) registry().add(ctx(), head_, "head", {2, {rows, width}}, {stddev});
    freeze_all_but_adapters();
  }

  /// On the first virtual stage's rank.
  template <class Pass>
  auto embed(const Pass& pass, const ids& tokens) {
    const scoped_value<std::int64_t> now(ctx().pass, pass.number);
    return run_unit(
        embedding_unit_, [&](const ids& t) { return pass.of.embed(t); }, tokens);
  }
  using model_base<S>::run_unit;
  stage_places stages_;
  table embedding_, head_;
  std::vector<Layer> layers_;

 private:
  // Of the newest unit, where the strategy's projections are adapted.
  void freeze_all_but_adapters() {
    if constexpr (S::projections::adapts)
      for (parameter_record& r : registry().units().back().parameters)
        if (!r.adapter) r.freeze();
  }
  // f(the head's table, x), in its unit.
  template <class F, any_tensor X>
  auto with_table(const F& f, const X& x) {
    if (!tied_) return f(head_, x);
    return run_unit(
        embedding_unit_, [&](const auto& in) { return f(embedding_, in); }, x);
  }
  // Whether embedding and head lie on two ranks. Tied ones are summed between the pipeline's ends then.
  bool tables_apart() const {
    const int first = stages_.rank_of(0), last = stages_.rank_of(stages_.count() - 1);
    require(
        first == last || (std::min(first, last) == 0 && std::max(first, last) == ctx().template degree<pp>() - 1),
        "the schedule ", std::string_view(S::schedule::name), " has its first virtual stage on rank ", first,
        " of pp and its last on rank ", last,
        ", so embeddings can't be tied: only pp's first and last rank sum theirs; give the model a head of its own");
    return first != last;
  }

  bool tied_;
  int embedding_unit_ = 0, first_layer_unit_ = 0, head_unit_ = 0;
};

}  // namespace weft
