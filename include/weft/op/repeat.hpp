// Every element of a dimension several times. Linear: it takes pending sums. Invariant: nothing moves between ranks;
// copies of an element lie together, so slices of the output are those of whole groups of copies or of parts of one.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/op/create.hpp>
#include <weft/op/view.hpp>

namespace weft {
namespace detail {

template <class Backend, class T>
struct repeat_operator {
  struct attributes {
    int dim;
    std::int64_t times;
    shape in;
  };
  // The output as the kernels see it: [what lies outside and the elements, copies, what lies inside].
  struct copies {
    static constexpr int ndim = 3;
    static constexpr bool marked[ndim] = {false, true, false};
    std::int64_t extents[ndim];

    explicit copies(const attributes& at)
        : extents{at.in.elements(0, at.dim + 1), at.times, at.in.elements(at.dim + 1)} {}
  };
  static value forward(const value& x, int dim, std::int64_t times);
  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    const copies c(at);
    const gradient_target to = node.input(0)->type == dtype_of<T> ? target<Backend>(ctx, node, 0) : gradient_target{};
    const local_array dx = to ? to.to : ctx.make(dtype_of<T>, at.in);
    Backend::template reduce_dims<reduce::sum>(ctx.queue<Backend>(), c.ndim, c.extents, c.marked,
                                               node.output_gradient().template as<T>(), dx.as<T>(), to.add);
    if (!to) contribute<Backend, T>(ctx, node, 0, dx);
  }
};

template <class Backend, class T>
value repeat_operator<Backend, T>::forward(const value& x, int dim, std::int64_t times) {
  const attributes at{dim, times, x.held().shape};
  shape local = at.in, whole = x.whole;
  local[dim] *= times, whole[dim] *= times;
  return operate<T>(
      {"repeat", vjp, 0, computed_by(dim, times)}, x.ctx, whole, local, {&x},
      [&](const local_array& y) {
        const copies c(at);
        Backend::repeat(x.ctx->template queue<Backend>(), c.ndim, c.extents, c.marked, x.held().template as<T>(),
                        y.template as<T>(), false);
      },
      [&](tape_node& node) { node.set(at); });
}

}  // namespace detail

/// Every element along D `times` times, its copies together: y[..., i, ...] = x[..., i / times, ...]. Placement: any,
/// pending sums too, but D whole on every rank. Gradient: the sum over the copies. Where times is 1, y is x. Throws
/// weft::failure where times is below 1, and above 2^58 elements. Cost: a copy; of the gradient, an operation an
/// element of y.
template <dimension D, any_tensor X>
auto repeat(const X& x, std::int64_t times) {
  using lacks = detail::lacked<dims_of<X>, D>;
  static_assert(detail::none<lacks>, "weft: repeat<dim>(x, times) names a dimension that x lacks: name one of x's");
  constexpr bool whole = shard_axes<layout_of<X>, D>::size == 0;
  static_assert(!detail::none<lacks> || whole,
                "weft: repeat<dim>(x, times) needs the dimension whole on every rank: all_gather<axis>(x) it first");
  static_assert(detail::none<integers_in<X>>,
                "weft: repeat<dim>(x, times) takes floating elements: repeat<dim>(cast<float>(x), times)");
  if constexpr (detail::none<lacks> && whole && detail::none<integers_in<X>>) {
    using in = dims_of<X>;
    using result = basic_tensor<typename X::element_type, typename detail::without_static<in, D>::type, layout_of<X>,
                                typename X::backend>;
    require(times >= 1, "repeat of dimension ", D::name, ": ", times, " times; an element is there at least once");
    require(times <= detail::most_elements / untyped(x).whole.elements(), "repeat of dimension ", D::name, ": ", times,
            " times a tensor of ", untyped(x).whole.elements(), " elements is more than 2^58 elements");
    if (times == 1) return result(untyped(x));
    return result(detail::repeat_operator<typename X::backend, typename X::element_type>::forward(
        untyped(x), in::template index<D>, times));
  }
}

}  // namespace weft
