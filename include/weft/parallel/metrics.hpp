// What a run measures of held-out text beside the loss: functions of logits and targets that give back a sum and a
// count, as losses do. Invariant: sums are added up over micro-batches and over the ranks that their types say they are
// pending over, and only then divided, so that a metric is the same on every mesh.
#pragma once

#include <array>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <weft/op/convert.hpp>
#include <weft/op/extremes.hpp>
#include <weft/op/select.hpp>
#include <weft/parallel/loss_sums.hpp>
#include <weft/parallel/stage.hpp>

namespace weft {

/// A metric made of a function: `named_metric{"accuracy", [](const auto& logits, const auto& targets) { ... }}`.
template <class F>
struct named_metric {
  const char* name;
  F of;
  template <any_tensor Logits, any_tensor Targets>
  auto operator()(const Logits& logits, const Targets& targets) const {
    return of(logits, targets);
  }
};
template <class F>
named_metric(const char*, F) -> named_metric<F>;

/// What a trainer measures when it validates: `metric_list{token_accuracy{}, my_metric{}}`. Each has a `name` of its
/// own, the same on every rank, and is called with a micro-batch's logits and targets as a loss is, nothing recorded;
/// it gives back loss{sum, count}, two scalars that are pending over the same axes.
template <class... Ms>
struct metric_list {
  static constexpr std::size_t count = sizeof...(Ms);
  std::tuple<Ms...> each;

  metric_list(const Ms&... ms) : each(ms...) {}
};
template <>
struct metric_list<> {
  static constexpr std::size_t count = 0;
};
template <class... Ms>
metric_list(Ms...) -> metric_list<Ms...>;

/// x with dimension D whole on every rank: gathered along each axis that shards it, the innermost first.
template <dimension D, any_tensor X>
auto gather_all(const X& x) {
  using axes = shard_axes<layout_of<X>, D>;
  if constexpr (axes::size == 0) {
    return x;
  } else {
    return []<class... As>(const X& y, tag_list<As...>) {
      using innermost = std::tuple_element_t<sizeof...(As) - 1, std::tuple<As...>>;
      return gather_all<D>(all_gather<innermost>(y));
    }(x, axes{});
  }
}

/// The tokens with the largest logit, [batch, seq] of [batch, seq, vocab]: the first of several. The vocabulary is
/// gathered where it is sharded. Cost: the gather, and an operation a logit.
template <any_tensor Logits>
auto predicted_tokens(const Logits& logits) {
  return argmax<vocab>(gather_all<vocab>(logits));
}

/// The share of targets that are predicted_tokens; targets below 0 don't count.
struct token_accuracy {
  static constexpr std::string_view name = "accuracy";

  template <any_tensor Logits, any_tensor Targets>
  auto operator()(const Logits& logits, const Targets& targets) const {
    const auto right = equal(predicted_tokens(logits), targets);
    return loss{sum(cast<float>(right)), sum(cast<float>(targets >= 0.0))};
  }
};

namespace detail {

template <class L>
constexpr bool summed_alike = true;
template <class Sum, class Count>
constexpr bool summed_alike<loss<Sum, Count>> = std::same_as<pending_in<layout_of<Sum>>, pending_in<layout_of<Count>>>&&
    floating<typename Sum::element_type>&& floating<typename Count::element_type>;

/// Whether M measures such logits; where it can't, a sentence says why.
template <class M, class Logits, class Targets>
constexpr bool is_metric() {
  constexpr bool named = requires(const M& m) { std::string(std::string_view(m.name)); };
  static_assert(named, "weft: a metric has a name, which logs say: static constexpr std::string_view name = \"...\";");
  constexpr bool callable = requires(const M& m, const Logits& l, const Targets& t) { m(l, t); };
  static_assert(callable,
                "weft: a metric is called with a micro-batch's logits and targets, and doesn't take these: write it as "
                "auto operator()(const auto& logits, const auto& targets) const");
  if constexpr (callable) {
    using made = std::remove_cvref_t<decltype(std::declval<const M&>()(std::declval<const Logits&>(),
                                                                       std::declval<const Targets&>()))>;
    constexpr bool gives = is_loss<made>;
    static_assert(gives, "weft: a metric gives back loss{sum, count}: two scalars, of what is counted and of how many");
    if constexpr (gives) {
      constexpr bool alike = summed_alike<made>;
      static_assert(alike,
                    "weft: a metric's sum and count are floating numbers that are pending over the same axes: "
                    "all_reduce<axis> the one that is pending over more, cast<float>(x) integers");
      return named && alike;
    }
  }
  return false;
}

/// A loss that has what it is given measured first, since it may take the logits' memory.
template <class Loss, class Sums>
struct measured_loss {
  const Loss& loss;
  Sums& sums;

  template <class Logits, class Targets>
  auto operator()(Logits&& logits, const Targets& targets) const {
    sums.add(logits, targets);
    return loss(std::forward<Logits>(logits), targets);
  }
};

/// The metrics of what a pipeline evaluates.
template <class Metrics, class Pipeline>
class metric_sums {
 public:
  metric_sums(context&, const Metrics&) {}
  /// As the pipeline's.
  template <class Read>
  auto& evaluate(Pipeline& p, int micro_batches, Read&& read) {
    return p.evaluate(micro_batches, read);
  }
  /// Over all ranks, which all call it.
  std::vector<metric_value> finish() { return {}; }
};
template <class... Ms, class Pipeline>
requires(sizeof...(Ms) > 0) class metric_sums<metric_list<Ms...>, Pipeline> {
  using Logits = typename Pipeline::logits;
  using Targets = typename Pipeline::targets;
  using queued = typename Pipeline::loss_place;
  static constexpr bool right = (is_metric<Ms, Logits, Targets>() && ...);

 public:
  metric_sums(context& ctx, const metric_list<Ms...>& metrics)
      : metrics_(metrics.each), sums_{(static_cast<void>(sizeof(Ms)), queued(ctx))...} {
    std::set<std::string> names;
    if constexpr (right)
      each([&](const auto& metric, queued&) {
        require(names.emplace(std::string_view(metric.name)).second, "two metrics are called \"",
                std::string_view(metric.name), "\", and logs tell them by their names: give each another one");
      });
  }

  template <class Read>
  auto& evaluate(Pipeline& p, int micro_batches, Read&& read) {
    for (queued& s : sums_) s.clear();
    using loss = std::remove_cvref_t<decltype(p.objective())>;
    return p.evaluate(micro_batches, read, measured_loss<loss, metric_sums>{p.objective(), *this});
  }
  void add(const Logits& logits, const Targets& targets) {
    if constexpr (right)
      each([&](const auto& metric, queued& to) {
        const auto l = metric(logits, targets);
        to.add(l.sum, l.count);
      });
  }
  std::vector<metric_value> finish() {
    std::vector<metric_value> out;
    if constexpr (right)
      each([&](const auto& metric, queued& of) {
        of.template finish<decltype(metric(std::declval<const Logits&>(), std::declval<const Targets&>()).sum)>({});
        const loss_sums all = of;
        const metric_value told{std::string(std::string_view(metric.name)), all.sum / all.count};
        out.push_back(told);
      });
    return out;
  }

 private:
  template <class F>
  void each(F&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (f(std::get<I>(metrics_), sums_[I]), ...); }
    (std::index_sequence_for<Ms...>{});
  }
  std::tuple<Ms...> metrics_;
  std::array<queued, sizeof...(Ms)> sums_;
};

}  // namespace detail
}  // namespace weft
