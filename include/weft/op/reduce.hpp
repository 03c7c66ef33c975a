// Sums and means over named dimensions. Invariant: reducing a sharded dimension leaves a sum pending over its axes.
#pragma once

#include <weft/autograd/tape.hpp>
#include <weft/backend/concept.hpp>
#include <weft/core/rule.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/placed.hpp>

namespace weft {
namespace detail {

struct reduced_dims {
  std::int8_t ndim = 0;
  bool at[max_ndim] = {};
};

template <class D, class... Rs>
constexpr reduced_dims reduced_of(list<Rs...>) {
  reduced_dims out;
  [&]<class... Es>(dims<Es...>) { ((out.at[out.ndim++] = contains<list<Rs...>, tag_of<Es>>), ...); }(D{});
  return out;
}

template <class Backend, class T>
struct reduction_operator {
  struct attributes {
    reduced_dims reduced;
    shape in;
  };
  static value forward(const value& x, const reduced_dims& reduced, const shape& valid) {
    context& ctx = *x.ctx;
    const attributes at{reduced, x.held().shape};
    shape kept, whole;
    for (int d = 0; d < at.in.ndim; ++d)
      if (!reduced.at[d]) kept.push_back(at.in[d]), whole.push_back(x.whole[d]);
    value y{x.ctx, whole, {}, {}};
    if (!recalled(ctx, "sum", y.data)) {
      y.data = ctx.make(dtype_of<T>, kept);
      const array addends = with_padding<Backend>(ctx, x.held(), valid);
      Backend::template reduce_dims<reduce::sum>(ctx.queue<Backend>(), at.in.ndim, at.in.extent, reduced.at,
                                                 addends.template as<T>(), y.data.template as<T>(), false);
      computed(ctx, {"sum", static_cast<double>(at.in.elements())}, {&y.data}, x);
    }
    if (tape_node* node = record("sum", y, vjp, x)) node->set(at);
    return y;
  }
  // The gradient is the outcome's, repeated along the reduced dimensions.
  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    const array& dy = node.output_gradient();
    const gradient_target to = node.input(0)->type == dtype_of<T> ? target<Backend>(ctx, node, 0) : gradient_target{};
    array dx = to ? to.to : ctx.make(dtype_of<T>, at.in);
    Backend::repeat(ctx.queue<Backend>(), at.in.ndim, at.in.extent, at.reduced.at, dy.template as<T>(),
                    dx.template as<T>(), to.add);
    if (!to) contribute<Backend, T>(ctx, node, 0, dx);
  }
};

template <class L, class Reduced>
struct reduced_layout;
template <class... Ps, class... Rs>
struct reduced_layout<layout<Ps...>, list<Rs...>> {
  template <class P>
  struct one {
    using type = P;
  };
  template <class D, class... As>
  struct one<shard<D, As...>> {
    using type = std::conditional_t<(std::same_as<D, Rs> || ...), partial<As...>, shard<D, As...>>;
  };
  using type = typename insert_all<layout<>, typename one<Ps>::type...>::type;
};

}  // namespace detail

/// Sum over the given dimensions, or over all of them when none is given. Accumulated in accumulate_t<T>.
/// Placement: a reduced dimension's axes become partial; the rest stays. Linear: takes pending sums. Cost: an operation
/// an element of x.
template <dimension... Rs, any_tensor X>
auto sum(const X& x) {
  if constexpr (sizeof...(Rs) == 0) {
    if constexpr (dims_of<X>::ndim == 0)
      return x;
    else
      return []<class... Es>(const X& y, dims<Es...>) { return sum<tag_of<Es>...>(y); }(x, dims_of<X>{});
  } else {
    static_assert((dims_of<X>::template has<Rs> && ...), "weft: sum<dim...>(x) names a dimension that x lacks");
    using result = basic_tensor<typename X::element_type, dims_without<dims_of<X>, Rs...>,
                                typename detail::reduced_layout<layout_of<X>, list<Rs...>>::type, typename X::backend>;
    static constexpr auto reduced = detail::reduced_of<dims_of<X>>(list<Rs...>{});
    return result(detail::reduction_operator<typename X::backend, typename X::element_type>::forward(
        x, reduced, detail::valid_part(x)));
  }
}

/// Mean over the given dimensions (all of them when none is given), divided by their *global* extents.
template <dimension... Rs, any_tensor X>
auto mean(const X& x) {
  double n = 1;
  [&]<class... Es>(dims<Es...>) {
    ((sizeof...(Rs) == 0 || contains<list<Rs...>, tag_of<Es>>
          ? void(n *= static_cast<double>(x.template global_extent<tag_of<Es>>()))
          : void()),
     ...);
  }(dims_of<X>{});
  return scale(sum<Rs...>(x), 1.0 / n);
}

}  // namespace weft
