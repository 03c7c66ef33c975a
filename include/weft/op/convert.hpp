// The conversions between placements: the only operators that move data between ranks. Each names its axis, so a reader
// of a model sees every byte that moves forward. Invariant: the gradient takes the transposed way
// (core/conversion.hpp).
#pragma once

#include <weft/core/refusal.hpp>
#include <weft/op/convert_engine.hpp>

namespace weft {
namespace detail {

template <class P>
struct target_placement;
template <dimension D, mesh_axis A>
struct target_placement<shard<D, A>> {
  using axis = A;
  using dim = D;
  static constexpr holds kind = holds::shard;
};
template <mesh_axis A>
struct target_placement<invariant<A>> {
  using axis = A;
  using dim = void;
  static constexpr holds kind = holds::invariant;
};
template <mesh_axis A>
struct target_placement<replicate<A>> {
  using axis = A;
  using dim = void;
  static constexpr holds kind = holds::replicate;
};
template <mesh_axis A>
struct target_placement<partial<A>> {
  using axis = A;
  using dim = void;
  static constexpr holds kind = holds::partial;
};

template <class List, class A>
inline constexpr bool ends_with = false;
template <class... As, class A>
inline constexpr bool ends_with<tag_list<As...>, A> = [] {
  bool last = false;
  ((last = std::same_as<As, A>), ...);
  return last;
}();
template <class L, class A>
inline constexpr bool innermost = true;
template <class... Ps, class A>
inline constexpr bool innermost<layout<Ps...>, A> = ((!contains<typename axes_in<Ps>::type, A> ||
                                                      ends_with<typename axes_in<Ps>::type, A>)&&...);

template <class P>
concept one_axis_placement = requires {
  typename target_placement<P>::axis;
};

template <class P, any_tensor X>
auto converted(const X& x, const char* operation, call_site at) {
  using to = target_placement<P>;
  using A = typename to::axis;
  constexpr on_axis from = state_on<layout_of<X>, A>;
  constexpr bool known = [] {
    if constexpr (to::kind == holds::shard)
      return dims_of<X>::template has<typename to::dim>;
    else
      return true;
  }();
  static_assert(known, "weft: the dimension to shard is not a dimension of the tensor");
  constexpr on_axis into = [] {
    if constexpr (to::kind == holds::shard)
      return on_axis{holds::shard, id_of<typename to::dim>};
    else
      return on_axis{to::kind};
  }();
  constexpr bool same = from.dim == into.dim;
  constexpr movement there = known ? forward_of(from.kind, to::kind, same) : movement::refused;
  constexpr bool unvaried = known && there == movement::refused && from.kind == holds::replicate;
  static_assert(
      none<std::conditional_t<unvaried, replicated_over<A>, replicated_over<>>>,
      "weft: a replicate value can't become invariant, since its gradient is pending: make it invariant where "
      "it was made replicate, by convert<invariant<axis>>(x) of the slice or the pending sum in place of "
      "all_gather<axis>(x) or convert<replicate<axis>>(x)");
  constexpr bool addend = known && there == movement::refused && from.kind == holds::shard;
  static_assert(none<std::conditional_t<addend, sharded_over<A>, sharded_over<>>>,
                "weft: a slice can't become an addend of a sum by itself: convert<partial<axis>>(all_gather<axis>(x))");
  static_assert(!known || from.kind != holds::shard || there == movement::none || innermost<layout_of<X>, A>,
                "weft: gather the innermost axis of a dimension first: its slices lie inside those of the outer axes");
  using result = basic_tensor<typename X::element_type, dims_of<X>, replaced<layout_of<X>, A, P>, typename X::backend>;
  if constexpr (there == movement::none && from.kind == to::kind) {
    return x;
  } else if constexpr (there != movement::refused) {
    using Backend = typename X::backend;
    using engine = conversion<Backend>;
    constexpr auto vjp = engine::template vjp<typename X::element_type>;
    const asked_for by{operation, dims_text<dims_of<X>>(), at};
    if constexpr (is_whole(from))
      compare_converted<A>(x,
                           to::kind == holds::shard     ? "split"
                           : to::kind == holds::partial ? "convert<partial>"
                                                        : "convert<replicate>",
                           at);
    if constexpr (from.kind == holds::invariant && to::kind == holds::replicate) {
      return result(untyped(x).ctx->template degree<A>() > 1 ? engine::promote(untyped(x), id_of<A>, by, vjp)
                                                             : engine::same(untyped(x), id_of<A>, by, vjp, true));
    } else {
      constexpr auto moves = movers_of<Backend, there, backward_of(from.kind, to::kind, same)>();
      return result(
          engine::forward(untyped(x), id_of<A>, moves, moved<A>(x, from, true), moved<A>(x, into, false), by, vjp));
    }
  }
}

}  // namespace detail

/// Converts x to the placement P on P's one axis: `convert<replicate<tp>>(x)`, `convert<shard<seq, tp>>(x)`.
/// Every row of the conversion table is reachable so; the functions below are its common names.
/// Shape: global extents stay; a dimension that becomes sharded shrinks on each rank by the axis's degree, rounded up.
/// A last share that is shorter ends in padding, which whatever collects the shares leaves out.
template <class P, any_tensor X>
auto convert(const X& x, call_site at = call_site::here()) {
  static_assert(detail::one_axis_placement<P>,
                "weft: convert<placement>(x) names a placement over one axis: shard<dim, axis>, replicate<axis>, "
                "partial<axis> or invariant<axis>");
  // A tensor whose type was refused is no value for clang, which would say more about that.
  if constexpr (detail::one_axis_placement<P> && any_tensor<X>) return detail::converted<P>(x, "convert", at);
}

/// Finishes the pending sum over A: `partial -> invariant`. Backward: nothing moves.
template <mesh_axis A, any_tensor X>
auto all_reduce(const X& x, call_site at = call_site::here()) {
  constexpr bool slices = state_on<layout_of<X>, A>.kind == holds::shard;
  using sliced = std::conditional_t<slices, sharded_over<A>, sharded_over<>>;
  static_assert(detail::none<sliced>,
                "weft: all_reduce<axis>(x) needs a sum pending over that axis, and x is sharded over it: "
                "all_gather<axis>(x) collects the slices; to add them up, all_reduce<axis>(sum<dim>(x))");
  static_assert(slices || detail::none<nothing_pending<layout_of<X>, A>>,
                "weft: all_reduce<axis>(x) needs a sum pending over that axis, and x has none: it would be counted "
                "once per rank; "
                "remove this all_reduce");
  static_assert(detail::none<pending_elsewhere<layout_of<X>, A>>,
                "weft: all_reduce<axis>(x) names another axis than x's sum is pending over: name that of this "
                "pending_sum_over<axis>");
  if constexpr (state_on<layout_of<X>, A>.kind == holds::partial)
    return detail::converted<invariant<A>>(x, "all_reduce", at);
}

/// Collects the slices along A on every rank: `shard -> replicate`. Backward: reduce-scatter.
template <mesh_axis A, any_tensor X>
auto all_gather(const X& x, call_site at = call_site::here()) {
  constexpr holds kind = state_on<layout_of<X>, A>.kind;
  using whole = std::conditional_t<kind == holds::shard || kind == holds::partial, whole_over<>, whole_over<A>>;
  static_assert(detail::none<whole>,
                "weft: all_gather<axis>(x) needs x sharded over that axis; it is whole there already");
  using pending = std::conditional_t<kind == holds::partial, pending_sum_over<A>, pending_sum_over<>>;
  static_assert(detail::none<pending>,
                "weft: all_gather<axis>(x) collects slices, and x's sum is pending over that axis: all_reduce<axis>(x) "
                "finishes it, convert<replicate<axis>>(x) too");
  if constexpr (kind == holds::shard) return detail::converted<replicate<A>>(x, "all_gather", at);
}

/// Finishes the pending sum over A and keeps this rank's slice of D: `partial -> shard`. Backward: all-gather.
template <dimension D, mesh_axis A, any_tensor X>
auto reduce_scatter(const X& x, call_site at = call_site::here()) {
  static_assert(detail::none<nothing_pending<layout_of<X>, A>>,
                "weft: reduce_scatter<dim, axis>(x) needs a sum pending over that axis, and x has none; slice with "
                "split<dim, axis>(x) what is whole, with all_to_all<dim, axis>(x) what is sharded along another");
  static_assert(detail::none<pending_elsewhere<layout_of<X>, A>>,
                "weft: reduce_scatter<dim, axis>(x) names another axis than x's sum is pending over: name that of this "
                "pending_sum_over<axis>");
  if constexpr (state_on<layout_of<X>, A>.kind == holds::partial)
    return detail::converted<shard<D, A>>(x, "reduce_scatter", at);
}

/// Keeps this rank's slice of D of a whole value: `invariant -> shard` or `replicate -> shard`. No communication
/// forward.
template <dimension D, mesh_axis A, any_tensor X>
auto split(const X& x, call_site at = call_site::here()) {
  constexpr holds kind = state_on<layout_of<X>, A>.kind;
  using pending = std::conditional_t<kind == holds::partial, pending_sum_over<A>, pending_sum_over<>>;
  using sharded = std::conditional_t<kind == holds::shard, sharded_over<A>, sharded_over<>>;
  static_assert(detail::none<pending> && detail::none<sharded>,
                "weft: split<dim, axis>(x) takes its slice from a value that is whole on that axis; reduce_scatter a "
                "partial one, "
                "all_to_all a sharded one");
  if constexpr (kind == holds::invariant || kind == holds::replicate)
    return detail::converted<shard<D, A>>(x, "split", at);
}

/// Shards D over A instead of the dimension sharded there now: `shard<d1> -> shard<D>`. Backward: all-to-all.
template <dimension D, mesh_axis A, any_tensor X>
auto all_to_all(const X& x, call_site at = call_site::here()) {
  constexpr bool along_another =
      state_on<layout_of<X>, A>.kind == holds::shard && state_on<layout_of<X>, A>.dim != id_of<D>;
  static_assert(along_another,
                "weft: all_to_all<dim, axis>(x) needs x sharded over that axis along another dimension: split<dim, "
                "axis>(x) shards what is whole, reduce_scatter<dim, axis>(x) what is pending");
  if constexpr (along_another) return detail::converted<shard<D, A>>(x, "all_to_all", at);
}

}  // namespace weft
