// Softmax along one dimension. Invariant: the dimension is whole on every rank.
#pragma once

#include <weft/autograd/operate.hpp>
#include <weft/backend/concept.hpp>
#include <weft/backend/default.hpp>
#include <weft/core/refusal.hpp>
#include <weft/op/tag_checks.hpp>

namespace weft {
namespace detail {

template <class Backend, class T>
struct softmax_operator {
  static value forward(const value& x, int d);
  static void vjp(context& ctx, tape_node& node) {
    const int d = node.template get<int>();
    const local_array &y = node.saved(0), &dy = node.output_gradient();
    compute_gradient<Backend, T>(ctx, node, 0, [&](T* dx, bool add) {
      Backend::softmax_backward(ctx.queue<Backend>(), y.shape.elements(0, d), y.shape[d], y.shape.elements(d + 1),
                                y.template as<T>(), dy.template as<T>(), dx, add);
    });
  }
};

template <class Backend, class T>
value softmax_operator<Backend, T>::forward(const value& x, int d) {
  return operate_like<T>(
      x, {"softmax", vjp, 12.0 * static_cast<double>(x.held().elements()), computed_by(d)}, {&x},
      [&](const local_array& y) {
        const shape& s = y.shape;
        Backend::softmax(x.ctx->queue<Backend>(), s.elements(0, d), s[d], s.elements(d + 1), x.held().template as<T>(),
                         y.template as<T>());
      },
      [&](tape_node& node, const value& y) { node.set(d), node.save(y.data); });
}

}  // namespace detail

/// exp(x - max) / sum of it, along D. Shape and placement as x; x may not be partial nor sharded along D. Cost: 12
/// operations an element.
template <dimension D, any_tensor X>
X softmax(const X& x) {
  using lacks = detail::lacked<dims_of<X>, D>;
  static_assert(detail::none<lacks>, "weft: softmax<dim>(x) names a dimension that x lacks: name one of x's");
  static_assert(!detail::none<lacks> || detail::none<integers_in<X>>,
                "weft: softmax<dim>(x) takes floating elements: cast<float>(x) first");
  static_assert(detail::none<pending_in<layout_of<X>>>,
                "weft: softmax of a pending sum is not the sum of the softmaxes: all_reduce<axis> it first");
  static_assert(shard_axes<layout_of<X>, D>::size == 0,
                "weft: softmax<dim>(x) needs the dimension whole on every rank: all_gather<axis> or all_to_all<dim, "
                "axis> it first");
  if constexpr (detail::none<lacks> && detail::none<integers_in<X>>)
    return X(detail::softmax_operator<typename X::backend, typename X::element_type>::forward(
        untyped(x), dims_of<X>::template index<D>));
  else
    return x;
}

}  // namespace weft
