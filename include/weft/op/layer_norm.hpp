// LayerNorm (Ba, Kiros & Hinton 2016): y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, along the last
// dimension. Invariant: that dimension is whole on every rank; gradients of weight and bias are pending wherever x's
// rows are sharded.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/op/rms_norm.hpp>

namespace weft {
namespace detail {

template <class Backend, class T>
struct layer_norm_operator {
  using A = accumulate_t<T>;

  static value forward(const value& x, const value& weight, const value& bias, double eps, const shape& valid);
  static operation what(const value& x, const double& eps) {
    return {"layer_norm", vjp, 8.0 * static_cast<double>(x.held().elements()), computed_by(eps)};
  }
  static void keep(tape_node& node, const value& x, const value& weight, const local_array& mean,
                   const local_array& rstd, const shape& valid) {
    node.set(valid), node.save(x), node.save_for(0, weight), node.save(mean), node.save(rstd);
  }
  static void vjp(context& ctx, tape_node& node) {
    in_gradient_type<T>(node, {1, 2}, [&]<class G>() { back<G>(ctx, node); });
  }
  template <class G>
  static void back(context& ctx, tape_node& node) {
    const local_array &x = node.saved(0), &mean = node.saved(2), &rstd = node.saved(3);
    const T* weight = node.input(0) ? node.saved(1).template as<T>() : nullptr;
    const valid_rows<Backend> rows(ctx, x.shape, node.template get<shape>());
    const std::int64_t width = x.shape[x.shape.ndim - 1];
    const local_array xs = rows.of(x), means = rows.of(mean), rstds = rows.of(rstd),
                      dys = rows.of(node.output_gradient());
    const bool apart = rows.padded() && node.input(0);
    const gradient_target dx = apart ? gradient_target{ctx.make(dtype_of<T>, xs.shape), false, true}
                                     : separate_target<Backend, T>(ctx, node, 0),
                          dw = separate_target<Backend, G>(ctx, node, 1),
                          db = separate_target<Backend, G>(ctx, node, 2);
    if (rows.count() > 0) {
      Backend::layer_norm_backward(ctx.queue<Backend>(), rows.count(), width, xs.template as<T>(), weight,
                                   means.template as<double>(), rstds.template as<A>(), dys.template as<T>(),
                                   dx.to.template as<T>(), dx.add, dw.to.template as<G>(), dw.add,
                                   db.to.template as<G>(), db.add);
    } else {
      for (const gradient_target* none : {&dw, &db})
        if (none->to && !none->add) Backend::zero(ctx.queue<Backend>(), none->to);
    }
    if (apart)
      contribute<Backend, T>(ctx, node, 0, rows.back(dx.to));
    else
      add_separate<Backend, T>(ctx, node, 0, dx);
    add_separate<Backend, T, G>(ctx, node, 1, dw);
    add_separate<Backend, T, G>(ctx, node, 2, db);
  }
};

template <class Backend, class T>
value layer_norm_operator<Backend, T>::forward(const value& x, const value& weight, const value& bias, double eps,
                                               const shape& valid) {
  local_array mean, rstd;
  return operate_like<T>(
      x, what(x, eps), {&x, &weight, &bias},
      [&](const local_array& y) {
        const std::int64_t width = y.shape[y.shape.ndim - 1], rows = y.elements() / width;
        mean = x.ctx->make(dtype::f64, {1, {rows}}), rstd = x.ctx->make(dtype_of<A>, {1, {rows}});
        Backend::layer_norm(x.ctx->queue<Backend>(), rows, width, eps, x.held().template as<T>(),
                            weight.held().template as<T>(), bias.held().template as<T>(), y.template as<T>(),
                            mean.as<double>(), rstd.as<A>());
      },
      [&](tape_node& node) { keep(node, x, weight, mean, rstd, valid); }, {&mean, &rstd});
}

/// Whether layer_norm takes tensors of these types; where it doesn't, a sentence says why.
template <any_tensor X, any_tensor W, any_tensor B>
struct layer_norm_takes {
  using in = dims_of<X>;
  static constexpr bool over_last = dims_of<W>::ndim == 1 && dims_of<B>::ndim == 1 && in::ndim >= 1 &&
                                    dims_of<W>::ids[0] == in::ids[in::ndim - 1] &&
                                    dims_of<B>::ids[0] == in::ids[in::ndim - 1];
  static_assert(
      over_last,
      "weft: layer_norm(x, weight, bias) needs a weight and a bias over the last dimension of x and nothing else");
  static_assert(!over_last || none<integers_in<X, W, B>>,
                "weft: layer_norm(x, weight, bias) takes floating elements: cast<float>(x) the integers");
  static_assert(none<pending_in<layout_of<X>>> && none<pending_in<layout_of<W>>> && none<pending_in<layout_of<B>>>,
                "weft: layer_norm of a pending sum is not the sum of the norms: all_reduce<axis> it first");
  static constexpr auto whole_in = []<class... Es>(dims<Es...>, auto layout) {
    return ((shard_axes<decltype(layout), tag_of<Es>>::size == 0) && ...);
  };
  static constexpr bool whole = whole_in(dims_of<W>{}, layout_of<X>{}) && whole_in(dims_of<W>{}, layout_of<W>{}) &&
                                whole_in(dims_of<B>{}, layout_of<B>{});
  static_assert(whole,
                "weft: layer_norm(x, weight, bias) needs the normalised dimension whole on every rank: "
                "all_gather<axis> it first");
  static constexpr bool ok = over_last && whole && none<integers_in<X, W, B>> && none<pending_in<layout_of<X>>> &&
                             none<pending_in<layout_of<W>>> && none<pending_in<layout_of<B>>>;
};

}  // namespace detail

/// Shape: x [..., d], weight [d], bias [d], out as x. Placement: d whole, nothing partial; out is placed as x.
/// Sums in accumulate_t<T>, the variance in a second pass: squares as in rms_norm. Cost: three reads (two of them from
/// cache) and a write of x, 8 operations an element.
template <any_tensor X, any_tensor W, any_tensor B>
auto layer_norm(const X& x, const W& weight, const B& bias, double eps = 1e-5, call_site at = call_site::here()) {
  if constexpr (detail::layer_norm_takes<X, W, B>::ok) {
    using scaled = detail::pair_rule<detail::pairing::product, X, W>;
    if constexpr (scaled::ok) {
      using product = basic_tensor<typename X::element_type, dims_of<X>, typename scaled::layout, typename X::backend>;
      using rule = detail::pair_rule<detail::pairing::sum, product, B>;
      if constexpr (rule::ok) {
        detail::check_shared_extents(x, weight);
        detail::require_eps("layer_norm", eps);
        detail::check_shared_extents(x, bias);
        using result = basic_tensor<typename X::element_type, dims_of<X>, typename rule::layout, typename X::backend>;
        return result(detail::layer_norm_operator<typename X::backend, typename X::element_type>::forward(
            detail::promoted<typename rule::layout>(x, "layer_norm", at),
            detail::promoted<typename rule::layout>(weight, "layer_norm", at),
            detail::promoted<typename rule::layout>(bias, "layer_norm", at), eps, detail::valid_part(x)));
      }
    }
  }
}

// A dimension is not said, as it is for softmax: the weight's is normalised.
template <dimension D, class... Xs>
detail::refused_call layer_norm(const Xs&...) {
  static_assert(detail::none<tag_list<D>>,
                "weft: layer_norm(x, weight, bias) takes its dimension from its weight: leave out the dimension in <>");
  return {};
}

}  // namespace weft
