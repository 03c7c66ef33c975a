// What the compiler says to `T y(x)` where x is a tensor of another type than T: which operator makes the one from the
// other. Invariant: it says one sentence, about the first thing in which the types differ, and what it says compiles.
#pragma once

#include <tuple>

#include <weft/core/dtype.hpp>
#include <weft/core/refusal.hpp>

namespace weft::detail {

/// The first thing in which two tensors' types differ, and the axis or the type of which that is true.
enum class mismatch {
  pending_to_slice,
  pending,
  other_dim,
  slice_to_addend,
  slice_to_replicate,
  slice,
  whole_to_slice,
  whole_to_addend,
  invariant_to_replicate,
  replicate_to_invariant,
  order_of_axes,
  outer_axis,
  backend,
  element_type,
  static_extent,
  order_of_dims,
  dims
};
template <mismatch How, class What>
struct difference {
  static constexpr mismatch how = How;
  using what = What;
};

constexpr mismatch placement_mismatch(on_axis from, on_axis to) {
  using enum holds;
  using enum mismatch;
  if (from.kind == partial) return to.kind == shard ? pending_to_slice : pending;
  if (from.kind == shard && to.kind == shard) return other_dim;
  if (from.kind == shard)
    return to.kind == partial ? slice_to_addend : to.kind == replicate ? slice_to_replicate : slice;
  if (to.kind == shard) return whole_to_slice;
  if (to.kind == partial) return whole_to_addend;
  return to.kind == replicate ? invariant_to_replicate : replicate_to_invariant;
}

// Whether a dimension that L shards over A has one of the axes inside of it, on which Other shards too.
template <class A, class Other, class... Bs>
constexpr bool has_inner(tag_list<Bs...>) {
  bool outside = true, found = false;
  ((found = found || (!outside && state_on<Other, Bs>.kind == holds::shard), outside = outside && !std::same_as<A, Bs>),
   ...);
  return found && !outside;
}
template <class A, class L, class Other>
inline constexpr bool has_inner_axis = false;
template <class A, class... Ps, class Other>
inline constexpr bool has_inner_axis<A, layout<Ps...>, Other> =
    (has_inner<A, Other>(typename sharding_axes<Ps>::type{}) || ...);

// Of the axes on which two layouts differ, a pending one, or else the first; of those that shard the first one, the
// last, whose slices lie inside the others' and are gathered first.
template <class From, class To, class... As>
auto unlike_layouts(tag_list<As...>) {
  constexpr auto weight = []<class A>(A*) {
    constexpr on_axis from = state_on<From, A>;
    if (from == state_on<To, A>) return 0;
    return from.kind == holds::partial ? 3 : from.kind == holds::shard ? 2 : 1;
  };
  constexpr int weights[] = {weight(static_cast<As*>(nullptr))..., 0};
  constexpr int at = [&] {
    int best = sizeof...(As);
    for (int i = 0; i < int(sizeof...(As)); ++i)
      if (weights[i] > weights[best] || (weights[i] == 2 && weights[best] == 2)) best = i;
    return best;
  }();
  if constexpr (weights[at] == 0) {
    return difference<mismatch::order_of_axes, tag_list<As...>>{};
  } else {
    using A = std::tuple_element_t<static_cast<std::size_t>(at), std::tuple<As...>>;
    constexpr mismatch how = placement_mismatch(state_on<From, A>, state_on<To, A>);
    if constexpr (how == mismatch::whole_to_slice && has_inner_axis<A, To, From>)
      return difference<mismatch::order_of_axes, tag_list<As...>>{};
    else if constexpr (weights[at] == 2 && has_inner_axis<A, From, From>)
      return difference<mismatch::outer_axis, A>{};
    else
      return difference<how, A>{};
  }
}

template <class D, class E>
inline constexpr bool same_tags = false;
template <class... Ds, class E>
inline constexpr bool same_tags<dims<Ds...>, E> = sizeof...(Ds) == E::ndim && (E::template has<tag_of<Ds>> && ...);
template <class D, class E>
inline constexpr bool same_order = false;
template <class... Ds, class... Es>
requires(sizeof...(Ds) == sizeof...(Es)) inline constexpr bool same_order<dims<Ds...>, dims<Es...>> =
    (std::same_as<tag_of<Ds>, tag_of<Es>> && ...);

template <class From, class To>
auto difference_of() {
  using X = typename From::dims;
  using Y = typename To::dims;
  if constexpr (!std::same_as<typename From::backend, typename To::backend>)
    return difference<mismatch::backend, typename From::backend>{};
  else if constexpr (!std::same_as<typename From::layout, typename To::layout>)
    return unlike_layouts<typename From::layout, typename To::layout>(
        axes_of_all<typename From::layout, typename To::layout>{});
  else if constexpr (!std::same_as<typename From::element_type, typename To::element_type>)
    return difference<mismatch::element_type, typename From::element_type>{};
  else if constexpr (same_order<X, Y>)
    return difference<mismatch::static_extent, X>{};
  else if constexpr (same_tags<X, Y>)
    return difference<mismatch::order_of_dims, X>{};
  else
    return difference<mismatch::dims, X>{};
}

/// Refuses, in one sentence, to make a tensor from one that differs so.
template <mismatch How, class What>
constexpr void refuse_made_from() {
  using enum mismatch;
  if constexpr (How == pending)
    static_assert(none<pending_sum_over<What>>,
                  "weft: a pending sum isn't a tensor of whole values, each rank holds one addend: all_reduce<axis>(x) "
                  "finishes the sum");
  else if constexpr (How == pending_to_slice)
    static_assert(none<pending_sum_over<What>>,
                  "weft: a pending sum isn't a tensor of slices: reduce_scatter<dim, axis>(x) finishes the sum and "
                  "keeps this rank's slice");
  else if constexpr (How == other_dim)
    static_assert(none<sharded_over<What>>,
                  "weft: the tensor is sharded along another dimension: all_to_all<dim, axis>(x) changes that");
  else if constexpr (How == slice_to_addend)
    static_assert(none<sharded_over<What>>,
                  "weft: a slice isn't an addend of a sum: convert<partial<axis>>(all_gather<axis>(x)) makes it one");
  else if constexpr (How == slice_to_replicate)
    static_assert(none<sharded_over<What>>,
                  "weft: a slice isn't the whole value: all_gather<axis>(x) collects the slices");
  else if constexpr (How == slice)
    static_assert(none<sharded_over<What>>,
                  "weft: a slice isn't the whole value: convert<invariant<axis>>(x) collects the slices");
  else if constexpr (How == whole_to_slice)
    static_assert(none<whole_over<What>>,
                  "weft: a whole value isn't a slice: split<dim, axis>(x) keeps this rank's slice");
  else if constexpr (How == whole_to_addend)
    static_assert(none<whole_over<What>>,
                  "weft: a whole value isn't an addend of a sum, it would be counted by every rank: "
                  "convert<partial<axis>>(x) counts it once");
  else if constexpr (How == invariant_to_replicate)
    static_assert(none<invariant_over<What>>,
                  "weft: an invariant tensor isn't a replicate one, whose gradient is pending: "
                  "convert<replicate<axis>>(x) makes it one");
  else if constexpr (How == replicate_to_invariant)
    static_assert(none<replicated_over<What>>,
                  "weft: a replicate tensor isn't an invariant one, since its gradient is pending: declare this tensor "
                  "replicate<axis> too, or with auto");
  else if constexpr (How == order_of_axes)
    static_assert(
        none<made_from<What>>,
        "weft: a dimension is sharded over axes in another order: declare them alike, outermost first; or gather x "
        "over them, innermost first, by convert<invariant<axis>>(x), and split<dim, axis>(x) it outermost first");
  else if constexpr (How == outer_axis)
    static_assert(none<sharded_over<What>>,
                  "weft: other axes shard this dimension inside of this one: gather x over those first, innermost "
                  "first, by convert<invariant<axis>>(x), then over this one, and split<dim, axis>(x) it again");
  else if constexpr (How == backend)
    static_assert(none<made_from<What>>,
                  "weft: a tensor stays on the backend that it was made on: name that one in this tensor's type");
  else if constexpr (How == element_type)
    static_assert(none<made_from<What>>,
                  "weft: a tensor of another element type isn't read as this one: cast<T>(x) converts its numbers");
  else if constexpr (How == static_extent)
    static_assert(none<made_from<What>>,
                  "weft: only one of the two types fixes the extent: write both with extent<dim, n>, or neither");
  else if constexpr (How == order_of_dims)
    static_assert(none<made_from<What>>,
                  "weft: the tensor has these dimensions in another order: permute<dim...>(x) changes the order");
  else
    static_assert(none<made_from<What>>,
                  "weft: the tensor has other dimensions: rename<from, to>(x) changes a dimension's name; otherwise a "
                  "tensor is made by an operator or a creator, not from another tensor");
}

}  // namespace weft::detail
