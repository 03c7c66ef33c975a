// What a layout says: of an axis, of a dimension, and what another layout is made of it.
// Invariant: whatever comes out is canonical.
#pragma once

#include <weft/core/canonical_layout.hpp>

namespace weft {

/// What a layout says of one axis: the placement and, if sharded, which dimension.
struct on_axis {
  holds kind = holds::invariant;
  dim_id dim = {};
  friend constexpr bool operator==(const on_axis&, const on_axis&) = default;
};

namespace detail {
template <class P, class A>
inline constexpr on_axis look = {};
template <class D, class... As, class A>
inline constexpr on_axis look<shard<D, As...>, A> = (std::same_as<As, A> || ...) ? on_axis{holds::shard, id_of<D>}
                                                                                 : on_axis{};
template <class... As, class A>
inline constexpr on_axis look<replicate<As...>, A> = (std::same_as<As, A> || ...) ? on_axis{holds::replicate}
                                                                                  : on_axis{};
template <class... As, class A>
inline constexpr on_axis look<partial<As...>, A> = (std::same_as<As, A> || ...) ? on_axis{holds::partial} : on_axis{};

template <class L, class A>
inline constexpr on_axis state_in = {};
template <class... Ps, class A>
inline constexpr on_axis state_in<layout<Ps...>, A> = [] {
  on_axis found;
  ((look<Ps, A>.kind != holds::invariant ? void(found = look<Ps, A>) : void()), ...);
  return found;
}();

// Without axis A (back to invariant there).
template <class P, class A>
struct drop;
template <class D, class... As, class A>
struct drop<shard<D, As...>, A> {
  template <class L>
  struct put;
  template <class... Bs>
  struct put<tag_list<Bs...>> {
    using type = shard<D, Bs...>;
  };
  using type = typename put<
      typename join_lists<std::conditional_t<std::same_as<As, A>, tag_list<>, tag_list<As>>...>::type>::type;
};
template <class B, class A>
struct drop<replicate<B>, A> {
  using type = std::conditional_t<std::same_as<A, B>, invariant<>, replicate<B>>;
};
template <class B, class A>
struct drop<partial<B>, A> {
  using type = std::conditional_t<std::same_as<A, B>, invariant<>, partial<B>>;
};

template <class L, class A>
struct cleared;
template <class... Ps, class A>
struct cleared<layout<Ps...>, A> {
  using type = typename insert_all<layout<>, typename drop<Ps, A>::type...>::type;
};

template <class P>
struct dual_placement {
  using type = P;
};
template <class... As>
struct dual_placement<replicate<As...>> {
  using type = partial<As...>;
};
template <class... As>
struct dual_placement<partial<As...>> {
  using type = replicate<As...>;
};
template <class L>
struct dual_of;
template <class... Ps>
struct dual_of<layout<Ps...>> {
  using type = typename insert_all<layout<>, typename dual_placement<Ps>::type...>::type;
};

template <class L, class D>
struct axes_of_dim {
  using type = tag_list<>;
};
template <class... Ps, class D, class... As>
struct axes_of_dim<layout<shard<D, As...>, Ps...>, D> {
  using type = tag_list<As...>;
};
template <class P, class... Ps, class D>
struct axes_of_dim<layout<P, Ps...>, D> : axes_of_dim<layout<Ps...>, D> {};

template <class L>
inline constexpr bool is_canonical = false;
template <class... Ps>
inline constexpr bool is_canonical<layout<Ps...>> = std::same_as<layout<Ps...>, place<Ps...>>;

template <class L>
inline constexpr bool any_partial = false;
template <class... Ps>
inline constexpr bool any_partial<layout<Ps...>> = ((rank_of<Ps>::group == 2) || ...);

}  // namespace detail

/// Placement of a layout on one axis, as a value.
template <class L, mesh_axis A>
inline constexpr on_axis state_on = detail::state_in<L, A>;
/// The axes over which a layout shards dimension D, outermost first.
template <class L, class D>
using shard_axes = typename detail::axes_of_dim<L, D>::type;
/// L with the placement on axis A replaced by P (`shard<d, A>`, `replicate<A>`, `partial<A>` or `invariant<A>`).
template <class L, class A, class P>
using replaced = typename detail::insert_all<typename detail::cleared<L, A>::type, P>::type;
/// The layout of the gradient of a tensor with layout L.
template <class L>
using dual_layout = typename detail::dual_of<L>::type;
/// Whether a sum over some axis is pending.
template <class L>
inline constexpr bool has_partial = detail::any_partial<L>;

}  // namespace weft
