// A layout: the placement of a tensor on every mesh axis, as one type in canonical form.
// Invariant: every axis appears at most once; axes that do not appear are `invariant`; equal layouts are equal types.
#pragma once

#include <weft/core/dims.hpp>
#include <weft/core/placement.hpp>

namespace weft {

template <class... Placements>
struct layout {};

namespace detail {

// Canonical order: shards by dimension, then replicates, then partials, each by axis.
template <class P>
struct rank_of;
template <class D, class... As>
struct rank_of<shard<D, As...>> {
  static constexpr int group = 0;
  using tag = D;
};
template <class A>
struct rank_of<replicate<A>> {
  static constexpr int group = 1;
  using tag = A;
};
template <class A>
struct rank_of<partial<A>> {
  static constexpr int group = 2;
  using tag = A;
};
template <class P, class Q>
constexpr bool before() {
  if constexpr (rank_of<P>::group != rank_of<Q>::group)
    return rank_of<P>::group < rank_of<Q>::group;
  else
    return tag_before<typename rank_of<P>::tag, typename rank_of<Q>::tag>();
}

template <class L, class P>
struct insert;
template <class L, class P>
struct prepend;
template <class... Ps, class P>
struct prepend<layout<Ps...>, P> {
  using type = layout<P, Ps...>;
};
template <class P>
struct insert<layout<>, P> {
  using type = layout<P>;
};
template <class H, class... T, class P>
struct insert<layout<H, T...>, P> {
  static auto pick() {
    if constexpr (before<P, H>())
      return layout<P, H, T...>{};
    else
      return typename prepend<typename insert<layout<T...>, P>::type, H>::type{};
  }
  using type = decltype(pick());
};
// Shards of one dimension join, the inserted axes innermost.
template <class D, class... As, class... T, class... Bs>
struct insert<layout<shard<D, As...>, T...>, shard<D, Bs...>> {
  using type = layout<shard<D, As..., Bs...>, T...>;
};

template <class L, class... Ps>
struct insert_all {
  using type = L;
};
template <class L, class P, class... Ps>
struct insert_all<L, P, Ps...> : insert_all<typename insert<L, P>::type, Ps...> {};
template <class L, class... As, class... Ps>
struct insert_all<L, invariant<As...>, Ps...> : insert_all<L, Ps...> {};
template <class L, class D, class... Ps>
struct insert_all<L, shard<D>, Ps...> : insert_all<L, Ps...> {};
template <class L, class... Ps>
struct insert_all<L, replicate<>, Ps...> : insert_all<L, Ps...> {};
template <class L, class A, class B, class... As, class... Ps>
struct insert_all<L, replicate<A, B, As...>, Ps...> : insert_all<L, replicate<A>, replicate<B, As...>, Ps...> {};
template <class L, class... Ps>
struct insert_all<L, partial<>, Ps...> : insert_all<L, Ps...> {};
template <class L, class A, class B, class... As, class... Ps>
struct insert_all<L, partial<A, B, As...>, Ps...> : insert_all<L, partial<A>, partial<B, As...>, Ps...> {};

template <class P>
struct axes_in {
  using type = tag_list<>;
  // Last, since clang leaves out what comes after one that fails.
  static_assert(sizeof(P) == 0,
                "weft: a placement is shard<dim, axis>, replicate<axis>, partial<axis> or invariant<axis>; in a "
                "tensor's type they stand behind its dims<...>: tensor<float, dims<batch, hidden>, shard<batch, dp>>");
};
template <class D, class... As>
struct axes_in<shard<D, As...>> {
  using type = tag_list<As...>;
  static_assert(std::derived_from<D, dim_tag> && (std::derived_from<As, axis_tag> && ...),
                "weft: shard<dim, axis> names a dimension first, as batch, and then mesh axes, as dp or tp: "
                "shard<batch, dp>");
};
template <class... As>
struct axes_in<replicate<As...>> {
  using type = tag_list<As...>;
  static_assert(
      (mesh_axis<As> && ...),
      "weft: replicate<axis>, partial<axis> and invariant<axis> name mesh axes, as dp or tp, and no dimensions");
};
template <class... As>
struct axes_in<partial<As...>> {
  using type = tag_list<As...>;
  static_assert(
      (mesh_axis<As> && ...),
      "weft: replicate<axis>, partial<axis> and invariant<axis> name mesh axes, as dp or tp, and no dimensions");
};
template <class... As>
struct axes_in<invariant<As...>> {
  using type = tag_list<>;
  static_assert(
      (mesh_axis<As> && ...),
      "weft: replicate<axis>, partial<axis> and invariant<axis> name mesh axes, as dp or tp, and no dimensions");
};

template <class... Ls>
struct join_lists {
  using type = tag_list<>;
};
template <class... As>
struct join_lists<tag_list<As...>> {
  using type = tag_list<As...>;
};
template <class... As, class... Bs, class... Rest>
struct join_lists<tag_list<As...>, tag_list<Bs...>, Rest...> : join_lists<tag_list<As..., Bs...>, Rest...> {};

template <class L, class Seen>
struct unique_list;
template <class... Seen>
struct unique_list<tag_list<>, tag_list<Seen...>> {
  using type = tag_list<Seen...>;
};
template <class A, class... As, class... Seen>
struct unique_list<tag_list<A, As...>, tag_list<Seen...>>
    : unique_list<tag_list<As...>,
                  std::conditional_t<contains<tag_list<Seen...>, A>, tag_list<Seen...>, tag_list<Seen..., A>>> {};

template <class L>
inline constexpr bool all_unique = true;
template <class A, class... As>
inline constexpr bool all_unique<tag_list<A, As...>> = !contains<tag_list<As...>, A> && all_unique<tag_list<As...>>;

}  // namespace detail

/// The axes that a layout names (those on which the tensor is not invariant).
template <class L>
struct layout_axes;
template <class... Ps>
struct layout_axes<layout<Ps...>> {
  using type = typename detail::join_lists<typename detail::axes_in<Ps>::type...>::type;
};
template <class L>
using axes_of = typename layout_axes<L>::type;
namespace detail {
template <class P>
struct sharding_axes {
  using type = tag_list<>;
};
template <class D, class... As>
struct sharding_axes<shard<D, As...>> {
  using type = tag_list<As...>;
};
template <class L>
struct all_sharding_axes;
template <class... Ps>
struct all_sharding_axes<layout<Ps...>> {
  using type = typename join_lists<typename sharding_axes<Ps>::type...>::type;
};
}  // namespace detail
/// The axes that either of several layouts names, each once. Those that shard come first, a dimension's outermost
/// first, so that a layout put together axis by axis in this order cuts a dimension as its operand did.
template <class... Ls>
using axes_of_all = typename detail::unique_list<
    typename detail::join_lists<typename detail::all_sharding_axes<Ls>::type..., axes_of<Ls>...>::type,
    tag_list<>>::type;

/// The canonical layout with the given placements: `place<shard<batch, dp>, partial<tp>>`.
template <class... Ps>
struct place_checked {
  static_assert(detail::all_unique<typename detail::join_lists<typename detail::axes_in<Ps>::type...>::type>,
                "weft: a layout places a tensor twice on one mesh axis; name every axis once");
  using type = typename detail::insert_all<layout<>, Ps...>::type;
};
template <class... Ps>
using place = typename place_checked<Ps...>::type;

}  // namespace weft
