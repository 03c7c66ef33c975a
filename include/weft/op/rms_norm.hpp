// RMSNorm (Zhang & Sennrich 2019): y = x / sqrt(mean(x^2) + eps) * weight, along the last dimension.
// Invariant: that dimension is whole on every rank; the weight's gradient is pending wherever x's rows are sharded.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/core/finite.hpp>
#include <weft/op/pair_rule.hpp>
#include <weft/op/valid_rows.hpp>

namespace weft {
namespace detail {

template <class Backend, class T>
struct rms_norm_operator {
  static value forward(const value& x, const value& weight, double eps, const shape& valid);
  static operation what(const value& x, const double& eps) {
    return {"rms_norm", vjp, 4.0 * static_cast<double>(x.held().elements()), computed_by(eps)};
  }
  static void keep(tape_node& node, const value& x, const value& weight, const local_array& rstd, const shape& valid) {
    node.set(valid), node.save(x), node.save_for(0, weight), node.save(rstd);
  }
  static void vjp(context& ctx, tape_node& node) {
    in_gradient_type<T>(node, {1}, [&]<class G>() { back<G>(ctx, node); });
  }
  template <class G>
  static void back(context& ctx, tape_node& node) {
    const local_array &x = node.saved(0), &rstd = node.saved(2);
    const T* weight = node.input(0) ? node.saved(1).template as<T>() : nullptr;
    const valid_rows<Backend> rows(ctx, x.shape, node.template get<shape>());
    const std::int64_t width = x.shape[x.shape.ndim - 1];
    const local_array xs = rows.of(x), rstds = rows.of(rstd), dys = rows.of(node.output_gradient());
    const bool apart = rows.padded() && node.input(0);
    const gradient_target dx = apart ? gradient_target{ctx.make(dtype_of<T>, xs.shape), false, true}
                                     : separate_target<Backend, T>(ctx, node, 0),
                          dw = separate_target<Backend, G>(ctx, node, 1);
    if (rows.count() > 0)
      Backend::rms_norm_backward(ctx.queue<Backend>(), rows.count(), width, xs.template as<T>(), weight,
                                 rstds.template as<accumulate_t<T>>(), dys.template as<T>(), dx.to.template as<T>(),
                                 dx.add, dw.to.template as<G>(), dw.add);
    else if (dw.to && !dw.add)
      Backend::zero(ctx.queue<Backend>(), dw.to);
    if (apart)
      contribute<Backend, T>(ctx, node, 0, rows.back(dx.to));
    else
      add_separate<Backend, T>(ctx, node, 0, dx);
    add_separate<Backend, T, G>(ctx, node, 1, dw);
  }
};

template <class Backend, class T>
value rms_norm_operator<Backend, T>::forward(const value& x, const value& weight, double eps, const shape& valid) {
  local_array rstd;
  return operate_like<T>(
      x, what(x, eps), {&x, &weight},
      [&](const local_array& y) {
        const std::int64_t width = y.shape[y.shape.ndim - 1], rows = y.elements() / width;
        rstd = x.ctx->make(dtype_of<accumulate_t<T>>, {1, {rows}});
        Backend::rms_norm(x.ctx->queue<Backend>(), rows, width, eps, x.held().template as<T>(),
                          weight.held().template as<T>(), y.template as<T>(), rstd.as<accumulate_t<T>>());
      },
      [&](tape_node& node) { keep(node, x, weight, rstd, valid); }, {&rstd});
}

WEFT_LINKED void require_eps(const char* norm, double eps) {
  require(is_finite(eps) && eps >= 0, norm, ": eps is ", eps, "; it is a finite number, at least 0");
}

/// Whether rms_norm takes tensors of these types; where it doesn't, a sentence says why.
template <any_tensor X, any_tensor W>
struct rms_norm_takes {
  using in = dims_of<X>;
  static constexpr bool over_last =
      dims_of<W>::ndim == 1 && in::ndim >= 1 && dims_of<W>::ids[0] == in::ids[in::ndim - 1];
  static_assert(over_last, "weft: rms_norm(x, weight) needs a weight over the last dimension of x and nothing else");
  static_assert(!over_last || none<integers_in<X, W>>,
                "weft: rms_norm(x, weight) takes floating elements: cast<float>(x) the integers");
  static_assert(none<pending_in<layout_of<X>>> && none<pending_in<layout_of<W>>>,
                "weft: rms_norm of a pending sum is not the sum of the norms: all_reduce<axis> it first");
  static constexpr bool whole = []<class... Es>(dims<Es...>) {
    return ((shard_axes<layout_of<X>, tag_of<Es>>::size == 0) && ...);
  }(dims_of<W>{});
  static_assert(
      whole, "weft: rms_norm(x, weight) needs the normalised dimension whole on every rank: all_gather<axis> it first");
  static constexpr bool ok =
      over_last && whole && none<integers_in<X, W>> && none<pending_in<layout_of<X>>> && none<pending_in<layout_of<W>>>;
};

}  // namespace detail

/// Shape: x [..., d], weight [d], out as x. Placement: d whole, nothing partial; out is placed as x.
/// Sums in accumulate_t<T>, which holds the squares of rows below 1e19 in float: beyond, out is 0. Cost: two reads and
/// a write of x, 4 operations an element.
template <any_tensor X, any_tensor W>
auto rms_norm(const X& x, const W& weight, double eps = 1e-5, call_site at = call_site::here()) {
  if constexpr (detail::rms_norm_takes<X, W>::ok) {
    using rule = detail::pair_rule<detail::pairing::product, X, W>;
    if constexpr (rule::ok) {
      detail::check_shared_extents(x, weight);
      detail::require_eps("rms_norm", eps);
      using result = basic_tensor<typename X::element_type, dims_of<X>, typename rule::layout, typename X::backend>;
      return result(detail::rms_norm_operator<typename X::backend, typename X::element_type>::forward(
          detail::promoted<typename rule::layout>(x, "rms_norm", at),
          detail::promoted<typename rule::layout>(weight, "rms_norm", at), eps, detail::valid_part(x)));
    }
  }
}

// A dimension is not said, as it is for softmax: the weight's is normalised.
template <dimension D, class... Xs>
detail::refused_call rms_norm(const Xs&...) {
  static_assert(detail::none<tag_list<D>>,
                "weft: rms_norm(x, weight) takes its dimension from its weight: leave out the dimension in <>");
  return {};
}

}  // namespace weft
