// Tensors joined along a dimension, one behind the other. Linear in all of them together, as a sum: pending sums may
// meet where all are pending. Invariant: nothing moves between ranks.
#pragma once

#include <weft/op/pair_rule.hpp>
#include <weft/op/view.hpp>

namespace weft {
namespace detail {

inline constexpr int max_concat = 32;

template <class Backend, class T>
struct concat_operator {
  struct attributes {
    int dim, parts;
    shape out;
    std::int64_t length[max_concat];
  };
  // Part `from ... from + n - 1` of an array along the dimension, with the whole array's strides.
  static local_array part(const local_array& whole, int dim, std::int64_t from) {
    local_array out = whole;
    out.data = static_cast<std::byte*>(whole.data) +
               from * whole.shape.elements(dim + 1) * static_cast<std::int64_t>(size_of(whole.type));
    return out;
  }
  static void copy(context& ctx, const shape& part, const local_array& from, const shape& from_shape,
                   const local_array& to, const shape& to_shape) {
    std::int64_t of_from[max_ndim], of_to[max_ndim];
    row_major(from_shape, of_from);
    row_major(to_shape, of_to);
    Backend::copy(ctx.queue<Backend>(), part.ndim, part.extent, from, of_from, to, of_to);
  }
  template <class... Values>
  static value forward(int dim, const Values&... x) {
    const value* const all[] = {&x...};
    require_one_context("concat", {&x...});
    context& ctx = *all[0]->ctx;
    attributes at{dim, static_cast<int>(sizeof...(Values)), all[0]->sizes(), {}};
    shape whole = all[0]->whole;
    whole[dim] = at.out[dim] = 0;
    for (int i = 0; i < at.parts; ++i) {
      at.length[i] = all[i]->sizes()[dim];
      whole[dim] += at.length[i], at.out[dim] += at.length[i];
    }
    return operate<T>(
        {"concat", vjp, 0, computed_by(dim)}, &ctx, whole, at.out, {&x...},
        [&](const local_array& y) {
          std::int64_t from = 0;
          for (int i = 0; i < at.parts; from += at.length[i++]) {
            const local_array& one = all[i]->held();
            copy(ctx, one.shape, one, one.shape, part(y, dim, from), at.out);
          }
        },
        [&](tape_node& node) { node.set(at); });
  }
  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    const local_array& dy = node.output_gradient();
    std::int64_t from = 0;
    for (int i = 0; i < at.parts; from += at.length[i++]) {
      if (!node.input(i)) continue;
      shape own = at.out;
      own[at.dim] = at.length[i];
      const local_array dx = ctx.make(dtype_of<T>, own);
      copy(ctx, own, part(dy, at.dim, from), at.out, dx, own);
      contribute<Backend, T>(ctx, node, i, dx);
    }
  }
};

template <class D>
struct tags_in;
template <class... Es>
struct tags_in<dims<Es...>> {
  using type = tag_list<tag_of<Es>...>;
};

// The layout of the output, found one tensor after the other.
template <class Y, class... Xs>
struct concat_rule {
  static constexpr bool ok = true;
  using layout = layout_of<Y>;
};
template <class Y, class X, class... Xs>
constexpr auto concat_next() {
  using rule = pair_rule<pairing::sum, Y, X>;
  if constexpr (rule::ok)
    return concat_rule<basic_tensor<typename Y::element_type, dims_of<Y>, typename rule::layout, typename Y::backend>,
                       Xs...>{};
  else
    return rule{};
}
template <class Y, class X, class... Xs>
struct concat_rule<Y, X, Xs...> : decltype(concat_next<Y, X, Xs...>()) {};

}  // namespace detail

/// The tensors, two to 32 of one element type, one behind the other along D. Shape: the same dimensions in the same
/// order, of the same extents but for D's, which add up. Placement: as a + b + ..., all pending sums or none, and D
/// whole on every rank: all_gather<axis> a tensor that is sharded along it. Invariant ones are promoted where another
/// is replicate. Gradient: each its part. Throws weft::failure where other extents differ. Cost: a copy.
template <dimension D, any_tensor X, any_tensor... Xs>
auto concat(const X& x, const Xs&... others) {
  constexpr bool count = sizeof...(Xs) >= 1 && sizeof...(Xs) < detail::max_concat;
  static_assert(count, "weft: concat<dim>(x, y, ...) takes 2 to 32 tensors");
  constexpr bool has_dim = dims_of<X>::template has<D>;
  static_assert(has_dim, "weft: concat<dim>(x, y, ...) names a dimension that x lacks");
  using tags = typename detail::tags_in<dims_of<X>>::type;
  constexpr bool alike = (std::same_as<tags, typename detail::tags_in<dims_of<Xs>>::type> && ...);
  static_assert(!has_dim || alike,
                "weft: concat<dim>(x, y, ...) takes tensors with the same dimensions in the same order: "
                "permute<dim...>(y) or rename<from, to>(y) one");
  constexpr bool whole = shard_axes<layout_of<X>, D>::size == 0 && (... && (shard_axes<layout_of<Xs>, D>::size == 0));
  static_assert(whole,
                "weft: concat<dim>(x, y, ...) needs the dimension whole on every rank, since the slices of two tensors "
                "are no slice of both: all_gather<axis>(x) what is sharded along it");
  if constexpr (count && has_dim && alike && whole) {
    using rule = detail::concat_rule<X, Xs...>;
    if constexpr (rule::ok) {
      using layout = typename rule::layout;
      (detail::check_shared_extents<D>(x, others), ...);
      using in = dims_of<X>;
      using result = basic_tensor<typename X::element_type, typename detail::without_static<in, D>::type, layout,
                                  typename X::backend>;
      return result(detail::concat_operator<typename X::backend, typename X::element_type>::forward(
          in::template index<D>, detail::promoted<layout>(x, "concat"), detail::promoted<layout>(others, "concat")...));
    }
  }
}

}  // namespace weft
