// Sums and means over named dimensions. Invariant: reducing a sharded dimension leaves a sum pending over its axes.
#pragma once

#include <weft/autograd/operate.hpp>
#include <weft/backend/concept.hpp>
#include <weft/core/refusal.hpp>
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
constexpr reduced_dims reduced_of(tag_list<Rs...>) {
  reduced_dims out;
  [&]<class... Es>(dims<Es...>) { ((out.at[out.ndim++] = contains<tag_list<Rs...>, tag_of<Es>>), ...); }(D{});
  return out;
}

// A sum, or a mean: the sum times a factor, rounded to T only then.
template <class Backend, class T, bool Mean>
struct reduction_operator {
  using A = accumulate_t<T>;
  static constexpr const char* name = Mean ? "mean" : "sum";
  struct attributes {
    reduced_dims reduced;
    shape in;
    double factor;
  };
  static value forward(const value& x, const reduced_dims& reduced, const shape& valid, double factor) {
    context& ctx = *x.ctx;
    const attributes at{reduced, x.held().shape, factor};
    shape kept, whole;
    for (int d = 0; d < at.in.ndim; ++d)
      if (!reduced.at[d]) kept.push_back(at.in[d]), whole.push_back(x.whole[d]);
    return operate<T>(
        {name, vjp, static_cast<double>(at.in.elements()), computed_by(reduced, factor)}, x.ctx, whole, kept, {&x},
        [&](const local_array& y) {
          const local_array addends = with_padding<Backend>(ctx, x.held(), valid);
          using Total = std::conditional_t<Mean, A, T>;
          const local_array total = std::is_same_v<Total, T> ? y : ctx.make(dtype_of<Total>, kept);
          Backend::template reduce_dims<reduce::sum>(ctx.queue<Backend>(), at.in.ndim, at.in.extent, reduced.at,
                                                     addends.template as<T>(), total.template as<Total>(), false);
          if constexpr (Mean) scale_by(ctx, factor, total, total);
          if constexpr (!std::is_same_v<Total, T>) add_converted<Backend, T, Total>(ctx, total, y, false);
        },
        [&](tape_node& node) { node.set(at); });
  }
  template <class N = A>
  static void scale_by(context& ctx, double factor, const local_array& from, const local_array& to) {
    Backend::scale(ctx.queue<Backend>(), from.elements(), factor, from.template as<N>(), to.template as<N>(), false);
  }
  // The gradient is the output's, times the factor, repeated along the reduced dimensions.
  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    local_array dy = node.output_gradient();
    if constexpr (Mean) {
      const local_array scaled = ctx.make(dtype_of<T>, dy.shape);
      scale_by<T>(ctx, at.factor, dy, scaled);
      dy = scaled;
    }
    const gradient_target to = node.input(0)->type == dtype_of<T> ? target<Backend>(ctx, node, 0) : gradient_target{};
    local_array dx = to ? to.to : ctx.make(dtype_of<T>, at.in);
    Backend::repeat(ctx.queue<Backend>(), at.in.ndim, at.in.extent, at.reduced.at, dy.template as<T>(),
                    dx.template as<T>(), to.add);
    if (!to) contribute<Backend, T>(ctx, node, 0, dx);
  }
};

template <class L, class Reduced>
struct reduced_layout;
template <class... Ps, class... Rs>
struct reduced_layout<layout<Ps...>, tag_list<Rs...>> {
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

template <bool Mean, class... Rs, any_tensor X>
auto reduced(const X& x, double factor) {
  using result = basic_tensor<typename X::element_type, dims_without<dims_of<X>, Rs...>,
                              typename reduced_layout<layout_of<X>, tag_list<Rs...>>::type, typename X::backend>;
  static constexpr auto dimensions = reduced_of<dims_of<X>>(tag_list<Rs...>{});
  return result(reduction_operator<typename X::backend, typename X::element_type, Mean>::forward(
      untyped(x), dimensions, valid_part(x), factor));
}

}  // namespace detail

/// Sum over the given dimensions, or over all of them when none is given. Accumulated in accumulate_t<T>, then rounded
/// to T: in fp16 infinite beyond 65504, so cast<float>(x) where it may be. A pending sum's addends are rounded each by
/// itself. Placement: a reduced dimension's axes become partial; the rest stays. Linear: takes pending sums. Cost: an
/// operation an element of x.
template <dimension... Rs, any_tensor X>
auto sum(const X& x) {
  if constexpr (sizeof...(Rs) == 0) {
    if constexpr (dims_of<X>::ndim == 0)
      return x;
    else
      return []<class... Es>(const X& y, dims<Es...>) { return sum<tag_of<Es>...>(y); }(x, dims_of<X>{});
  } else {
    using lacks = detail::lacked<dims_of<X>, Rs...>;
    static_assert(detail::none<lacks>,
                  "weft: sum<dim...>(x) names a dimension that x lacks: leave it out, or name one of x's");
    using twice = detail::repeated<Rs...>;
    static_assert(detail::none<twice>, "weft: sum<dim...>(x) names a dimension twice: name it once");
    static_assert(detail::none<integers_in<X>>, "weft: sum(x) takes floating elements: sum(cast<float>(x))");
    if constexpr (detail::none<lacks> && detail::none<twice> && detail::none<integers_in<X>>) {
      return detail::reduced<false, Rs...>(x, 1);
    }
  }
}

/// Mean over the given dimensions (all of them when none is given): the sum divided by their *global* extents, and
/// rounded to T only then. Shape, placement and cost as sum.
template <dimension... Rs, any_tensor X>
auto mean(const X& x) {
  if constexpr (sizeof...(Rs) == 0) {
    if constexpr (dims_of<X>::ndim == 0)
      return x;
    else
      return []<class... Es>(const X& y, dims<Es...>) { return mean<tag_of<Es>...>(y); }(x, dims_of<X>{});
  } else {
    using lacks = detail::lacked<dims_of<X>, Rs...>;
    static_assert(detail::none<lacks>,
                  "weft: mean<dim...>(x) names a dimension that x lacks: leave it out, or name one of x's");
    using twice = detail::repeated<Rs...>;
    static_assert(detail::none<twice>, "weft: mean<dim...>(x) names a dimension twice: name it once");
    static_assert(detail::none<integers_in<X>>, "weft: mean(x) takes floating elements: mean(cast<float>(x))");
    if constexpr (detail::none<lacks> && detail::none<twice> && detail::none<integers_in<X>>) {
      const double n = (1.0 * ... * static_cast<double>(x.template global_extent<Rs>()));
      return detail::reduced<true, Rs...>(x, 1 / n);
    }
  }
}

}  // namespace weft
