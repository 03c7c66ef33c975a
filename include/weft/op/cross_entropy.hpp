// Cross-entropy of logits, parallel over the vocabulary where that is sharded. Invariant: no second copy of the logits
// is made: the gradient is written over them when nobody else holds them.
#pragma once

#include <limits>
#include <tuple>

#include <weft/backend/concept.hpp>
#include <weft/op/pair_rule.hpp>
#include <weft/op/require_ids.hpp>
#include <weft/tensor/local_run.hpp>

namespace weft {

/// A loss as (sum, count): two sums over tokens, pending over the axes that share the tokens out, so that unequal
/// counts per rank, micro-batch or stage can't skew the mean, which is sum / count after both are finished.
template <class Sum, class Count>
struct loss {
  Sum sum;
  Count count;
  static_assert(any_tensor<Sum> && any_tensor<Count>,
                "weft: loss{sum, count} takes two scalar tensors: the count of what was added up in sum(x) is "
                "sum(0 * x + 1), and cross_entropy returns its own");
};

template <class Sum, class Count>
loss(Sum, Count) -> loss<Sum, Count>;  // clang 14 needs to be told

namespace detail {
template <class L>
constexpr bool is_loss = false;
template <class Sum, class Count>
constexpr bool is_loss<loss<Sum, Count>> = dims_of<Sum>::ndim == 0 && dims_of<Count>::ndim == 0;
}  // namespace detail

/// label_smoothing: Szegedy et al. 2016, section 7; from 0 (none) to below 1.
struct cross_entropy_options {
  double label_smoothing = 0;  // share of the target spread evenly over the *global* vocabulary
};

namespace detail {

struct vocab_axes {
  static constexpr int most = 4;
  axis_id axis[most] = {};
  int count = 0;
};

template <class Backend, class T>
struct cross_entropy_operator {
  using A = accumulate_t<T>;
  struct attributes {
    std::int64_t begin, columns, vocab;  // this rank's columns of the vocabulary, padding left out
    double smoothing;
  };

  // counted: the targets, and -1 in their padding.
  static void forward(const value& logits, const value& targets, const local_array& counted, const vocab_axes& axes,
                      const dimension_run& run, std::int64_t vocab, double smoothing, call_site asked, value& sum,
                      value& count);

  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    auto& queue = ctx.queue<Backend>();
    local_array logits = node.take_saved(0);
    const local_array &targets = node.saved(1), &kept = node.saved(2);
    const std::int64_t n = logits.shape[logits.shape.ndim - 1], rows = logits.elements() / n;
    local_array g = ctx.make(dtype_of<A>, {1, {rows}});
    const bool along_rows = true;
    Backend::repeat(queue, 1, &rows, &along_rows, node.output_gradient().template as<A>(), g.template as<A>(), false);
    local_array d = logits.buffer.unique() ? logits : ctx.make(dtype_of<T>, logits.shape);
    Backend::cross_entropy_backward(queue, rows, at.columns, logits.template as<T>(), at.begin,
                                    targets.template as<std::int32_t>(), kept.template as<A>(),
                                    kept.template as<A>() + rows, g.template as<A>(), at.smoothing, at.vocab,
                                    d.template as<T>(), n);
    logits = {};
    contribute<Backend, T>(ctx, node, 0, d);
  }

 private:
  template <class F>
  static void each_group(context& ctx, const vocab_axes& axes, F&& f) {
    for (int i = 0; i < axes.count; ++i)
      if (axis_group& g = ctx.along(axes.axis[i]); g.degree > 1) f(g.comm);
  }
};

template <class Backend, class T>
void cross_entropy_operator<Backend, T>::forward(const value& logits, const value& targets, const local_array& counted,
                                                 const vocab_axes& axes, const dimension_run& run, std::int64_t vocab,
                                                 double smoothing, call_site asked, value& sum, value& count) {
  context& ctx = *logits.ctx;
  auto& queue = ctx.queue<Backend>();
  const local_array& x = logits.held();
  const attributes at{run.first, run.valid, vocab, smoothing};
  const std::int64_t n = x.shape[x.shape.ndim - 1], rows = x.elements() / n, columns = at.columns;
  const auto* ids = counted.as<std::int32_t>();
  // The three sums lie in one array, so that they travel as one collective. m and log_sum are kept apart: their sum
  // would have no more digits than the largest logit.
  const local_array sums = ctx.make(dtype_of<A>, {2, {3, rows}}), kept = ctx.make(dtype_of<A>, {2, {2, rows}});
  A *const sum_exp = sums.as<A>(), *const target_logit = sum_exp + rows, *const sum_logits = target_logit + rows;
  A *const m = kept.as<A>(), *const log_sum = m + rows;
  Backend::row_max(queue, rows, columns, x.template as<T>(), m, n);
  each_group(ctx, axes, [&](any_communicator& comm) {
    comm.all_reduce(m, m, rows, dtype_of<A>, reduction::max, ctx.label("maxima for cross_entropy", {}, asked))
        .wait(ctx.order());
  });
  Backend::row_sums(queue, rows, columns, x.template as<T>(), at.begin, ids, m, sum_exp, target_logit,
                    smoothing != 0 ? sum_logits : nullptr, n);
  each_group(ctx, axes, [&](any_communicator& comm) {
    comm.all_reduce(sum_exp, sum_exp, (smoothing != 0 ? 3 : 2) * rows, dtype_of<A>, reduction::sum,
                    ctx.label("sums for cross_entropy", {}, asked))
        .wait(ctx.order());
  });
  sum.ctx = count.ctx = logits.ctx;
  sum.data = ctx.make(dtype_of<A>, {});
  count.data = ctx.make(dtype_of<A>, {});
  Backend::row_loss(queue, rows, ids, m, sum_exp, target_logit, sum_logits, smoothing, vocab, log_sum,
                    sum.data.template as<A>(), count.data.template as<A>());
  if (tape_node* node = record("cross_entropy", sum, vjp, logits, targets)) {
    node->set(at);
    node->numbers = std::bit_cast<std::uint64_t>(smoothing);
    node->save(logits);
    node->save(counted);
    node->save(kept);
  }
}

// On one axis: the vocabulary sharded and the targets whole, or the tokens sharded alike on both, or all whole.
template <class X, class Y, class A>
constexpr bool cross_entropy_agrees() {
  constexpr on_axis x = state_on<layout_of<X>, A>, y = state_on<layout_of<Y>, A>;
  if (y.kind == holds::partial) return false;
  if (x.kind == holds::shard && x.dim == dims_of<X>::ids[dims_of<X>::ndim - 1]) return y.kind != holds::shard;
  return (x.kind == holds::shard) == (y.kind == holds::shard) && x.dim == y.dim;
}
template <class X, class Y, class Axes>
struct cross_entropy_rule;
template <class X, class Y, class... As>
struct cross_entropy_rule<X, Y, tag_list<As...>> {
  static constexpr bool agrees =
      (cross_entropy_agrees<X, Y, As>() && ...) && same_cuts<dims_of<Y>, layout_of<X>, layout_of<Y>>;
  template <class A>
  static constexpr auto on() {
    constexpr on_axis x = state_on<layout_of<X>, A>;
    if constexpr (x.kind == holds::shard && x.dim != dims_of<X>::ids[dims_of<X>::ndim - 1])
      return partial<A>{};
    else if constexpr (x.kind == holds::replicate)
      return replicate<A>{};
    else
      return invariant<A>{};
  }
  using layout = typename insert_all<weft::layout<>, decltype(on<As>())...>::type;
};

}  // namespace detail

/// -log softmax(logits)[target], summed over tokens, with the number of tokens. Shape: logits [..., vocab], targets
/// [...] of int32 global ids; a negative target is left out, one beyond the vocabulary is an error. Placement: the
/// vocabulary sharded (its padding, if any, counts for nothing) or whole; tokens sharded alike on both, which leaves
/// both sums pending. Sums in accumulate_t<T>. Cost: two reads of the logits; over a sharded vocabulary two
/// all-reduces, of [tokens] and [2 tokens]. Their gradient is written over the logits where nobody else holds them by
/// then: who has given them a name says cross_entropy(std::move(logits), targets). Source: Shoeybi et al. 2019,
/// section 3.
template <any_tensor X, any_tensor Y>
auto cross_entropy(const X& logits, const Y& targets, cross_entropy_options options = {},
                   call_site at = call_site::here()) {
  using in = dims_of<X>;
  using other_ids = detail::not_ids<Y>;
  static_assert(detail::none<other_ids>,
                "weft: cross_entropy(logits, targets) takes targets of int32: make them so, "
                "from_global<tensor<std::int32_t, dims<...>>>(ctx, {...}, numbers)");
  static_assert(detail::none<integers_in<X>>,
                "weft: cross_entropy(logits, targets) takes logits of floating elements: cast<float>(logits)");
  constexpr bool fits = [] {
    bool same = in::ndim == dims_of<Y>::ndim + 1;
    for (int i = 0; same && i < dims_of<Y>::ndim; ++i) same = in::ids[i] == dims_of<Y>::ids[i];
    return same;
  }();
  static_assert(fits, "weft: cross_entropy(logits, targets) takes logits [..., vocab] and targets [...]");
  static_assert(detail::none<pending_in<layout_of<X>>>,
                "weft: cross_entropy of a pending sum is not the sum of the losses: all_reduce<axis> it first");
  using rule = detail::cross_entropy_rule<X, Y, axes_of_all<layout_of<X>, layout_of<Y>>>;
  static_assert(rule::agrees,
                "weft: cross_entropy needs the tokens sharded alike in logits and targets: split<dim, axis> or "
                "all_gather<axis> one of them");
  static_assert(detail::ask_backends<X, Y>());
  if constexpr (rule::agrees && detail::none<pending_in<layout_of<X>>> && detail::none<other_ids> &&
                detail::none<integers_in<X>> && detail::none<backends_in<X, Y>>) {
    detail::require_one_context("cross_entropy", {&untyped(logits), &untyped(targets)});
    detail::check_shared_extents(logits, targets);
    require(options.label_smoothing >= 0 && options.label_smoothing < 1, "label_smoothing is ", options.label_smoothing,
            "; it is from 0 (none) to below 1");
    using T = typename X::element_type;
    using scalar = basic_tensor<accumulate_t<T>, dims<>, typename rule::layout, typename X::backend>;
    return [&]<class... Es>(dims<Es...>) {
      using V = std::tuple_element_t<sizeof...(Es) - 1, std::tuple<tag_of<Es>...>>;
      static_assert(shard_axes<layout_of<X>, V>::size <= detail::vocab_axes::most,
                    "weft: cross_entropy takes a vocabulary that is sharded over at most 4 axes");
      detail::vocab_axes axes;
      [&]<class... As>(tag_list<As...>) {
        ((axes.axis[axes.count++] = id_of<As>), ...);
      }(shard_axes<layout_of<X>, V>{});
      const std::int64_t all = logits.template global_extent<V>();
      require_ids(targets, std::numeric_limits<std::int32_t>::min(), all, "the target");
      loss<scalar, scalar> out;
      detail::compare_operand<layout_of<X>>(targets, "cross_entropy", at);
      // Padding among the tokens counts for nothing, as a negative target does.
      const local_array counted = detail::with_padding<typename X::backend>(
          *untyped(targets).ctx, untyped(targets).held(), detail::valid_part(targets), -1);
      detail::cross_entropy_operator<typename X::backend, T>::forward(
          untyped(logits), untyped(targets), counted, axes, run_of<layout_of<X>, V>(*untyped(logits).ctx, all), all,
          options.label_smoothing, at, untyped(out.sum), untyped(out.count));
      return out;
    }(in{});
  }
}

/// The same of logits that nobody else needs: an operator's output, or std::move(logits). They are empty afterwards.
template <any_tensor X, any_tensor Y>
requires(!std::is_reference_v<X> && !std::is_const_v<X>) auto cross_entropy(X&& logits, const Y& targets,
                                                                            cross_entropy_options options = {},
                                                                            call_site at = call_site::here()) {
  const X taken = std::move(logits);
  logits = X();
  return cross_entropy(taken, targets, options, at);
}

}  // namespace weft
