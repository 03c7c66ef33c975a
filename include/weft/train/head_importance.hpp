// How important the heads of a decoder's layers are, by their weights or by what the loss does without them: the
// numbers that prune_heads ranks. Invariant: each element counts once, whoever holds it, and every rank gets the same
// numbers.
#pragma once

#include <weft/io/text_dataset.hpp>
#include <weft/nn/prune_heads.hpp>
#include <weft/parallel/parameter_store.hpp>
#include <weft/parallel/pipeline.hpp>
#include <weft/tensor/agree.hpp>
#include <weft/train/trainer_state.hpp>

namespace weft {

namespace detail {

/// Sums by layer and group, of a rank's own elements until they are finished.
class group_sums {
 public:
  /// Of a model whose layers have so many groups.
  group_sums(context& ctx, const std::vector<std::int64_t>& groups) : ctx_(ctx) {
    for (const std::int64_t n : groups) sums_.emplace_back(static_cast<std::size_t>(n));
  }

  /// Adds what f(element of this rank's slice) gives, of a parameter with heads. Copies that other ranks have too are
  /// one's that is first among them.
  template <class F>
  void add(const parameter_record& p, F&& f) {
    added_ = 1;
    for (const axis_group& g : ctx_.axes())
      if (g.axis != id_of<pipeline_ends> && !g.cuts(p.sharded, {}) && g.index != 0) return;
    std::vector<double>& sums = sums_[static_cast<std::size_t>(layer_of(p.name))];
    const auto run = [&](std::int64_t i, std::int64_t, std::int64_t n, std::int64_t group) {
      double sum = 0;
      for (std::int64_t k = i; k < i + n; ++k) sum += f(k);
      sums[static_cast<std::size_t>(group)] += sum;
    };
    head_blocks(p, std::ssize(sums)).each_run(p, run);
  }

  /// Of all ranks together, the same on each. All ranks call it. none: what to throw where nothing was added.
  head_scores finished(const char* none) {
    std::vector<double> all{added_};
    for (const auto& layer : sums_) all.insert(all.end(), layer.begin(), layer.end());
    ctx_.world.host()
        .all_reduce(all.data(), all.data(), std::ssize(all), dtype::f64, reduction::sum, ctx_.label("sums by head"))
        .wait();
    require(all[0] > 0, none);
    auto from = all.begin() + 1;
    for (auto& layer : sums_) std::copy_n(from, layer.size(), layer.begin()), from += std::ssize(layer);
    return std::move(sums_);
  }

 private:
  context& ctx_;
  head_scores sums_;
  double added_ = 0;
};

}  // namespace detail

/// By magnitude: the L2 norm of all numbers of a group of heads, its rows of the query, key and value projections and
/// of their biases and its columns of the output projection, by the master weights. Adapters don't count. The same on
/// every rank, under any strategy. All ranks call it; cost: each unit is gathered along the store's axis. Throws while
/// an adapter is merged into a weight.
template <class Store>
head_scores head_magnitudes(context& ctx, Store& store) {
  detail::on_all_or_none(ctx, [&] {
    store.each_stored([](const stored_parameter& p) { detail::require_unmerged(p.record, "head_magnitudes()"); });
  });
  detail::group_sums squares(ctx, detail::groups_of_all(ctx, detail::groups_here(store)));
  store.each_parameter(
      [&](const parameter_record& p, const auto&, const auto& weights) {
        const std::int64_t layer = detail::layer_of(p.name);
        if (layer < 0 || p.adapter || detail::heads_in(p) == 0) return;
        const auto* const w = weights.data();
        squares.add(p, [w](std::int64_t i) { return static_cast<double>(w[i]) * static_cast<double>(w[i]); });
      },
      {});
  head_scores scores = squares.finished(
      "the model has no layers with heads: their parameters are called layers.N.NAME, as a decoder's are, and have the "
      "dimensions heads or kv_heads");
  for (auto& layer : scores)
    for (double& s : layer) s = std::sqrt(s);
  return scores;
}

/// By gradient: how much the loss changes, to first order, when a group of heads is taken away: |factor * the sum of
/// weight * gradient over its columns of the output projection layers.N.out|, of the finished gradients in the store.
/// That is the derivative by a gate on the group's output, where that is 1. factor: from the gradients' sums to those
/// of the mean loss. All ranks call it, after finish_gradients(); the same on every rank. Throws where an output
/// projection is frozen, and where there are no gradients. Source: Michel et al. 2019; Molchanov et al. 2019.
template <class Store>
head_scores head_gradients(context& ctx, Store& store, double factor) {
  detail::group_sums sums(ctx, detail::groups_of_all(ctx, detail::groups_here(store)));
  std::string frozen;
  store.each_parameter(
      [&](const parameter_record& p, const auto& gradient, const auto& weights) {
        const std::int64_t layer = detail::layer_of(p.name);
        if (layer < 0 || p.name != detail::text("layers.", layer, ".out") || detail::heads_in(p) == 0) return;
        if (gradient.empty()) return void(frozen = p.name);
        const auto* const w = weights.data();
        const auto* const g = gradient.data();
        sums.add(p, [w, g](std::int64_t i) { return static_cast<double>(w[i]) * static_cast<double>(g[i]); });
      },
      {});
  detail::on_all_or_none(ctx, [&] {
    require(frozen.empty(), "parameter ", frozen,
            " is frozen, so it has no gradient to judge heads by: judge them by head_magnitudes, or in a model whose "
            "output projections train");
  });
  head_scores scores = sums.finished(
      "the model has no output projection of heads, which is called layers.N.out and has the dimension heads: give a "
      "model of your own that name, or judge its heads by head_magnitudes");
  bool some = false;
  for (auto& layer : scores)
    for (double& s : layer) some = some || s != 0, s = std::abs(factor * s);
  require(some, "the gradients of all output projections are 0: run a step's backward first");
  return scores;
}

/// The batches that heads are judged by: `batches` of them from the data's batch begin + 1 on, each of `batch`
/// sequences of `seq` tokens (0: the model's max_seq) over all ranks, in `micro_batches`.
struct importance_plan {
  std::int64_t batches = 16, batch = 8, seq = 0;
  int micro_batches = 1;
  std::int64_t begin = 0;
};

namespace detail {
/// The number of a model's recorded passes stays what it was, so that a run's masks do.
template <class Model>
class kept_passes {
 public:
  explicit kept_passes(Model& model) : model_(model) {
    if constexpr (requires { model.recorded_passes(); }) passes_ = model.recorded_passes();
  }
  ~kept_passes() {
    if constexpr (requires(Model & m, std::uint64_t n) { m.recorded_passes(n); }) model_.recorded_passes(passes_);
  }
  kept_passes(const kept_passes&) = delete;
  kept_passes& operator=(const kept_passes&) = delete;

 private:
  Model& model_;
  std::uint64_t passes_ = 0;
};
}  // namespace detail

/// The mean of head_gradients over batches of data that have targets, with the loss's mean over each batch's tokens;
/// nothing is updated. Smaller batches are nearer to Michel et al., who take the absolute value by example. Dropout
/// applies, as in training. store: the model's, as a trainer has it. All ranks call it; the same on every rank. Throws
/// weft::failure where the batch doesn't divide, and where gradients aren't finite (of fp16: under any loss scale).
template <class Model, class Store, class Data, class Loss = token_cross_entropy>
head_scores head_gradients(context& ctx, Model& model, Store& store, const Data& data, importance_plan plan = {},
                           const Loss& objective = {}) {
  using ids = typename Model::ids;
  if constexpr (requires { model.config().max_seq; })
    if (plan.seq == 0) plan.seq = model.config().max_seq;
  const std::int64_t shares = std::int64_t{plan.micro_batches} * shards_of<layout_of<ids>, batch>(ctx);
  require(
      plan.batches >= 1 && plan.seq >= 1 && plan.micro_batches >= 1 && plan.begin >= 0,
      "heads are judged by at least 1 batch of sequences of at least 1 token in at least 1 micro-batch, from batch 0 "
      "or a later one on, and not by ",
      plan.batches, " of ", plan.seq, " in ", plan.micro_batches, " from ", plan.begin);
  require(plan.batch >= 1 && plan.batch % shares == 0, "a batch of ", plan.batch, " sequences doesn't divide into ",
          plan.micro_batches, " micro-batches on ", shares / plan.micro_batches,
          " data-parallel ranks; choose a multiple of ", shares);
  using strategy = typename Model::strategy;
  using stages = pipeline<Model, Loss>;
  stages run(ctx, model, objective);
  loss_scale scale = detail::initial_scale<typename strategy::precision>();
  const std::int64_t each = plan.batch / plan.micro_batches;
  const detail::kept_passes<Model> passes(model);
  head_scores scores;
  std::int64_t judged = 0;
  for (std::int64_t b = 1; b <= plan.batches;) {
    store.begin_step(plan.micro_batches);
    const loss_sums own = run.train(
        plan.micro_batches, scale.value(),
        [&](int m) { return detail::training_batch<ids>(data, plan.begin + b, m * each, each, plan.seq, plan.batch); },
        [&](int) { store.end_micro_batch(); });
    store.finish_gradients({});
    const double count = finished<typename stages::loss_tensor>(ctx, own, {}).count;
    if (count == 0) {  // as of a chat's window without an answer
      ++b;
      continue;
    }
    if (!detail::is_finite(store.gradient_norm({}))) {
      require(!scale.accept(false), "the gradients of batch ", plan.begin + b, " aren't finite");
      continue;
    }
    const head_scores of_batch = head_gradients(ctx, store, 1 / (count * scale.value()));
    if (scores.empty()) {
      scores = of_batch;
    } else {
      for (std::size_t layer = 0; layer < scores.size(); ++layer)
        for (std::size_t i = 0; i < scores[layer].size(); ++i) scores[layer][i] += of_batch[layer][i];
    }
    ++b, ++judged;
  }
  require(judged > 0, "no token of the ", plan.batches, " batches from batch ", plan.begin + 1,
          " on has a target, so there are no gradients to judge heads by");
  for (auto& layer : scores)
    for (double& s : layer) s /= static_cast<double>(judged);
  return scores;
}

}  // namespace weft
