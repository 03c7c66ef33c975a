// What every decoder has: the token tables, its layers in order, and who owns the weights' memory. Layers are a
// dimension that a pipeline shards over pp: a stage has its own of them, the first the embedding, the last the head.
// Invariant: a unit's weights are resident exactly while it runs; tied embeddings are used in the first unit and,
// within the last, in the first once more.
#pragma once

#include <weft/autograd/checkpoint.hpp>
#include <weft/core/finite.hpp>
#include <weft/nn/parameters.hpp>
#include <weft/nn/weight.hpp>
#include <weft/op/create.hpp>
#include <weft/op/require_ids.hpp>
#include <weft/op/send_receive.hpp>

namespace weft {

/// A pipeline stage's place among the others, and the layers that it has: begin ... end - 1.
struct stage_place {
  int index = 0, count = 1;
  std::int64_t begin = 0, end = 0;

  bool first() const { return index == 0; }
  bool last() const { return index == count - 1; }
};

/// This rank's share of `layers` along pp: as even as possible. Throws when a stage would have none.
inline stage_place stage_of(const context& ctx, std::int64_t layers) {
  const int index = ctx.index<pp>(), count = ctx.degree<pp>();
  require(layers >= count, layers, " layers don't fill ", count,
          " pipeline stages; choose pp of at most the number of layers");
  return {index, count, layers * index / count, layers * (index + 1) / count};
}

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
  const stage_place& stage() const { return stage_; }
  void use(unit_hooks& hooks) { hooks_ = &hooks; }
  /// Says that the parameter store is gone, and with it the weights.
  void release() { hooks_ = nullptr; }

  /// tokens [batch/dp, seq] -> logits [batch/dp, seq, vocab/tp], on every stage. Throws when the sequence is longer
  /// than max_seq, when a token is not in the vocabulary, and when a model of several stages is recorded: that takes a
  /// schedule (`pipeline`).
  auto operator()(const ids& tokens) {
    const auto pass = begin_pass(tokens);
    if constexpr (S::mesh::template has<pp>)
      if (stage_.count > 1) return over_stages(pass, tokens);
    return head(pass, run_layers(pass, tokens, [](auto&) {}));
  }

  // The parts of a pass, for who runs a stage.
  auto begin_pass(const ids& tokens) {
    require(hooks_ != nullptr,
            "the model has no parameter store: make a trainer or a parameter_store for it, and keep that as long as "
            "the model is used");
    const std::int64_t n = tokens.template global_extent<seq>(), most = model().config().max_seq;
    require(n <= most, "a sequence of ", n, " tokens is longer than max_seq = ", most);
    require_ids(tokens, 0, model().config().vocab, "the token");
    return model().pass_for(tokens);
  }
  /// tokens [batch/dp, seq] -> what this stage's layers make of their embedding or of what the stage before sends on,
  /// after entered(it): [batch/dp, seq, hidden], sequence-parallel [batch/dp, seq/tp, hidden].
  template <class Pass, class Entered>
  auto run_layers(const Pass& pass, const ids& tokens, Entered&& entered) {
    decltype(pass.embed(tokens)) x;
    if constexpr (S::mesh::template has<pp>) {
      if (stage_.first()) {
        x = embed(pass, tokens);
      } else {
        x = receive<movement::shift, decltype(x)>(*ctx_, sizes(tokens, model().config().hidden));
        entered(x);
      }
    } else {
      x = embed(pass, tokens);
    }
    int unit = first_layer_unit_;
    for (const Layer& layer : layers_) {
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
  /// On the last stage: logits.
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
        stage_(stage_of(ctx, layers)),
        tied_(tied),
        layers_(static_cast<std::size_t>(stage_.end - stage_.begin)) {
    if (stage_.count > 1) registry_.held_by_stages(id_of<pp>);
  }

  /// Makes the embedding's unit where this stage needs it; `others()` adds what else is in it. Of tied embeddings the
  /// last stage has a copy of the unit: it begins with the same numbers, and the gradients of both are added up before
  /// each step.
  template <class F>
  void add_embedding(std::int64_t rows, std::int64_t width, double stddev, F&& others) {
    const bool copied = tied_ && stage_.count > 1;
    if (!stage_.first() && !(copied && stage_.last())) return;
    embedding_unit_ = registry_.begin_unit("embedding");
    registry_.add(*ctx_, embedding_, "embedding", {2, {rows, width}}, {stddev});
    others();
    if (!copied) return;
    for (parameter_record& r : registry_.units().back().parameters) {
      r.pending.push_back(id_of<pipeline_ends>);
      r.counted = stage_.first();
    }
  }
  /// f(layer, its parameters' prefix) for each layer of this stage, in a unit of its own.
  template <class F>
  void each_layer(F&& f) {
    for (std::int64_t i = stage_.begin; i < stage_.end; ++i) {
      const std::string number = std::to_string(i);
      const int unit = registry_.begin_unit("layer " + number);
      if (i == stage_.begin) first_layer_unit_ = unit;
      f(layers_[static_cast<std::size_t>(i - stage_.begin)], "layers." + number + ".");
    }
  }
  /// Begins the head's unit where this is the last stage; `norms()` adds what comes before its table.
  template <class F>
  void add_head(std::int64_t rows, std::int64_t width, double stddev, F&& norms) {
    if (!stage_.last()) return;
    head_unit_ = registry_.begin_unit("head");
    norms();
    if (!tied_) registry_.add(*ctx_, head_, "head", {2, {rows, width}}, {stddev});
  }

  table embedding_;
  parameter_registry registry_;

 private:
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

  // Each stage in turn, one micro-batch; the last gives its logits to all.
  template <class Pass>
  auto over_stages(const Pass& pass, const ids& tokens) {
    require(ctx_->tape == nullptr, "the model's layers lie on ", stage_.count,
            " pipeline stages, which take turns in training: use a trainer or weft::pipeline, or call it while nothing "
            "is recorded");
    const auto x = run_layers(pass, tokens, [](auto&) {});
    using logits = decltype(head(pass, x));
    logits y;
    if (stage_.last()) {
      y = head(pass, x);
    } else {
      send<movement::shift>(x).wait();
      y = detail::empty_tensor<logits>(*ctx_, sizes(tokens, model().config().vocab));
    }
    ctx_->group(id_of<pp>)->comm.broadcast(y.data.data, y.data.bytes(), stage_.count - 1, ctx_->label("logits")).wait();
    return y;
  }

  context* ctx_;
  unit_hooks* hooks_ = nullptr;
  stage_place stage_;
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

}  // namespace detail
}  // namespace weft
