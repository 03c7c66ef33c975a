// Two neighbouring dimensions as one. Linear: it takes pending sums. Invariant: nothing moves, neither in memory nor
// between ranks: a rank's share of the one dimension is its share of the two. Cost: none; a leaf's and a weight's
// numbers are copied.
#pragma once

#include <weft/op/view.hpp>

namespace weft {

/// The two dimensions that aren't neighbours in this order.
template <class... Dims>
struct not_neighbours {};

namespace detail {

template <class Backend, class T>
struct merge_operator {
  // Dimensions d and d + 1 of a shape as one.
  static shape merged(const shape& s, int d) {
    shape out;
    for (int i = 0; i < s.ndim; ++i)
      if (i == d + 1)
        out[d] *= s[i];
      else
        out.push_back(s[i]);
    return out;
  }
  static value forward(const value& x, int d);
  static void vjp(context& ctx, tape_node& node) { contribute<Backend, T>(ctx, node, 0, node.output_gradient()); }
};

template <class Backend, class T>
value merge_operator<Backend, T>::forward(const value& x, int d) {
  value y{x.ctx, merged(x.whole, d), x.held().reshaped(merged(x.held().shape, d)), {}};
  y.shares_memory = true;
  if (x.shares_memory || (x.slot && (x.slot->live || x.slot->epoch == 0))) give_own_memory<Backend>(y);
  if (tape_node* node = record("merge", y, vjp, x)) {
    node->numbers = static_cast<std::uint64_t>(d);
    y.slot->keep_as(*x.slot);
  }
  return y;
}

// Throws unless every rank's run of the merged dimension is its run of the outer one, whole.
template <class L, class A>
void require_same_shares(const context& ctx, std::string_view out, std::string_view outer, std::int64_t n,
                         std::int64_t each) {
  std::int64_t apart = n, together = n * each;
  const auto along = [&]<class Axis>() {
    const std::int64_t ranks = ctx.degree<Axis>();
    apart = (apart + ranks - 1) / ranks, together = (together + ranks - 1) / ranks;
    require(together == apart * each, "merge: of ", n, " ", outer, " with ", each, " elements each a rank along ",
            Axis::name, " has at most ", apart, ", and of ", n * each, " ", out, " it would have ", together,
            ", so that one of the ", outer, " lay on two ranks; choose a degree that divides ", n);
  };
  [&]<class... As>(tag_list<As...>) { (along.template operator()<As>(), ...); }(shard_axes<L, A>{});
}

// An entry of Out, whose extent is known where both of theirs are.
template <class Out, std::int64_t NA, std::int64_t NB>
using merged_entry = std::conditional_t<NA == dynamic_extent || NB == dynamic_extent, Out,
                                        extent<Out, NA == dynamic_extent || NB == dynamic_extent ? 1 : NA * NB>>;
// D with such an entry in place of those of A and B.
template <class D, class Out, class A, class B>
struct merged_dims;
template <class... Es, class Out, class A, class B>
struct merged_dims<dims<Es...>, Out, A, B> {
  using all = dims<Es...>;
  using one =
      merged_entry<Out, all::static_extents[all::template index<A>], all::static_extents[all::template index<B>]>;
  template <class E>
  using put = std::conditional_t<std::same_as<tag_of<E>, A>, dims<one>, dims_if<!std::same_as<tag_of<E>, B>, E>>;
  using type = dims_concat<dims<>, put<Es>...>;
};

template <class D, class A, class B>
using unless_neighbours =
    std::conditional_t<D::template index<A> + 1 == D::template index<B>, not_neighbours<>, not_neighbours<A, B>>;

}  // namespace detail

/// Dimensions Outer and Inner, which stand next to each other in this order, as one dimension Out of Outer * Inner
/// elements, the inner ones of each outer together: `merge<hidden, heads, head_dim>(x)`. Out may be one of the two, so
/// that an Inner of one element goes away: `merge<batch, batch, seq>(x)`. Placement: any, but Inner whole; where Outer
/// is sharded, Out is, over the same axes. Costs nothing. Throws weft::failure where the ranks don't divide Outer and
/// its padding would come in between.
template <dimension Out, dimension Outer, dimension Inner, any_tensor X>
auto merge(const X& x) {
  using in = dims_of<X>;
  constexpr bool found = detail::none<detail::lacked<in, Outer, Inner>>;
  static_assert(detail::none<detail::lacked<in, Outer, Inner>>,
                "weft: merge<out, outer, inner>(x) names a dimension that x lacks");
  using apart = detail::unless_neighbours<in, Outer, Inner>;
  static_assert(!found || detail::none<apart>,
                "weft: merge<out, outer, inner>(x) joins two dimensions of which inner follows outer: "
                "permute<dim...>(x) brings them together");
  constexpr bool whole = shard_axes<layout_of<X>, Inner>::size == 0;
  static_assert(!found || !detail::none<apart> || whole,
                "weft: merge<out, outer, inner>(x) needs the inner dimension whole on every rank: all_gather<axis>(x) "
                "it");
  constexpr bool free = std::same_as<Out, Outer> || std::same_as<Out, Inner> || !in::template has<Out>;
  static_assert(!found || !detail::none<apart> || !whole || free,
                "weft: merge<out, outer, inner>(x) calls the one dimension as another of x: name a third");
  if constexpr (found && detail::none<apart> && whole && free) {
    using backend = typename X::backend;
    detail::require_same_shares<layout_of<X>, Outer>(
        *untyped(x).ctx, Out::name, Outer::name, x.template global_extent<Outer>(), x.template global_extent<Inner>());
    return basic_tensor<typename X::element_type, typename detail::merged_dims<in, Out, Outer, Inner>::type,
                        typename detail::renamed_layout<layout_of<X>, Outer, Out>::type, backend>(
        detail::merge_operator<backend, typename X::element_type>::forward(untyped(x), in::template index<Outer>));
  }
}

}  // namespace weft
