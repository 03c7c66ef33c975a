// The conversions between placements: the only operators that move data between ranks. Each names its axis, so a reader
// of a model sees every byte that moves forward. Invariant: the gradient takes the transposed way
// (core/conversion.hpp).
#pragma once

#include <weft/autograd/tape.hpp>
#include <weft/core/conversion.hpp>
#include <weft/core/refusal.hpp>
#include <weft/op/agree.hpp>
#include <weft/op/move.hpp>

namespace weft {
namespace detail {

/// What a conversion's collectives are for: a tensor's dimensions, and the line that asks.
struct asked_for {
  std::string_view tensor;
  call_site at;
};

struct conversion_attributes {
  axis_id axis;
  mover back;
  moved_dim from, to;  // the sharded dimension before and after
  asked_for by;
};

using conversion_vjp = void (*)(context&, tape_node&);

template <class Backend>
struct conversion {
  static value forward(const value& x, axis_id axis, const ways& way, moved_dim from, moved_dim to, const asked_for& by,
                       conversion_vjp vjp) {
    context& ctx = *x.ctx;
    axis_group* group = ctx.group(axis);
    if (!group) return same(x, axis, by, vjp);
    const collective_label label = ctx.label("", by.tensor, by.at);
    value y{x.ctx, x.whole, {}, {}};
    if (way.what == movement::none ||
        way.what == movement::keep_first) {  // where nothing is computed nothing is remembered
      y.data = way.there(ctx, *group, x.held(), from, to, label);
      if (way.what == movement::keep_first && ctx.replay) ctx.replay->mark_read(x);
    } else if (!reuse_output(ctx, name_of(way.what), y.data)) {
      y.data = way.there(ctx, *group, x.held(), from, to, label);
      record_output(ctx, {name_of(way.what), 0, received_bytes(way.what, x.held(), y.data, group->degree)}, {&y.data},
                    x);
    }
    const bool aliased = x.slot && x.slot->live && y.data.data == x.slot->live->at.data;
    if (aliased) y.data = x.data;  // a parameter moves, and so does what is the same memory
    if (tape_node* node = record("convert", y, vjp, x)) {
      node->set(conversion_attributes{axis, way.back, from, to, by});
      y.slot->keep_as(*x.slot);
    }
    if (aliased && y.slot) y.slot->live = x.slot->live;
    if (aliased && !y.slot) y.data = copy_of<Backend>(ctx, x.held());
    return y;
  }
  /// Along an axis of one rank nothing moves, and what a program sees is as with more: the output is no leaf, has a
  /// gradient of its own, and memory of its own where an update of x's numbers would show, or if it is made a leaf.
  static value same(const value& x, axis_id axis, const asked_for& by, conversion_vjp vjp, bool promotes = false) {
    const bool moves = x.slot && x.slot->live;  // a parameter's memory
    value y{x.ctx, x.whole, moves ? x.data : x.held(), {}};
    y.shares_memory = true;
    if (!moves && !promotes && (x.shares_memory || (x.slot && x.slot->epoch == 0))) give_own_memory<Backend>(y);
    if (tape_node* node = record("convert", y, vjp, x)) {
      node->set(conversion_attributes{axis, nullptr, {}, {}, by});
      y.slot->keep_as(*x.slot);
      y.slot->live = x.slot->live;
    } else if (moves) {
      y.data = copy_of<Backend>(*x.ctx, x.held());
    }
    return y;
  }
  /// Of a conversion of elements of type T.
  template <class T>
  static void vjp(context& ctx, tape_node& node) {
    const auto a = node.get<conversion_attributes>();
    const local_array& dy = node.output_gradient();
    if (!a.back) return contribute<Backend, T>(ctx, node, 0, dy);
    const collective_label label = ctx.label("gradient of", a.by.tensor, a.by.at);
    contribute<Backend, T>(ctx, node, 0, a.back(ctx, *ctx.group(a.axis), dy, a.to, a.from, label));
  }

  /// `invariant -> replicate`, once per tape.
  static value promote(const value& x, axis_id axis, const asked_for& by, conversion_vjp vjp) {
    context& ctx = *x.ctx;
    if (!x.slot || !ctx.tape || !ctx.group(axis)) return x;
    ref<slot>& made = x.slot->promotions;
    if (made && made->epoch != ctx.tape->epoch()) made = {};  // for another tape
    for (ref<slot> s = made; s; s = s->next)
      if (s->promoted_over == axis) return {x.ctx, x.whole, x.data, s};
    value y{x.ctx, x.whole, x.data, {}};
    tape_node* node = record("promote", y, vjp, x);
    if (!node) return y;
    y.slot->live = x.slot->live;
    y.slot->keep_as(*x.slot);
    y.slot->of_weights = x.slot->of_weights;
    node->set(conversion_attributes{axis, move<Backend, movement::all_reduce>, {}, {}, by});
    y.slot->promoted_over = axis;
    y.slot->next = std::exchange(made, y.slot);
    return y;
  }
};

template <class Dims>
constexpr int position_of(on_axis at) {
  if (at.kind == holds::shard)
    for (int i = 0; i < Dims::ndim; ++i)
      if (Dims::ids[i] == at.dim) return i;
  return -1;
}

// The dimension that `at` shards over A, its innermost axis, and its extent over all of A's ranks, of which x holds its
// share or, if it is yet to be cut, all.
template <class A, any_tensor X>
moved_dim moved(const X& x, on_axis at, bool is_share) {
  moved_dim out{position_of<dims_of<X>>(at), 0};
  if (out.at < 0) return out;
  out.whole = x.sizes()[out.at];
  if (!is_share) return out;
  using outside = replaced<layout_of<X>, A, invariant<A>>;
  [&]<class... Es>(dims<Es...>) {
    int d = 0;
    ((d++ == out.at ? void(out.whole = run_of<outside, tag_of<Es>>(*x.ctx, x.whole[out.at]).local) : void()), ...);
  }(dims_of<X>{});
  return out;
}

/// The whole extent of the dimension that x is sharded along, and over how many ranks: of every axis that shards it.
struct whole_over {
  std::int64_t extent;
  int ranks;
};
template <any_tensor X>
whole_over over_shards(const X& x, on_axis at) {
  whole_over out{1, 1};
  [&]<class... Es>(dims<Es...>) {
    const int wanted = position_of<dims_of<X>>(at);
    int d = 0;
    ((d++ == wanted ? void(out = {x.whole[wanted], shards_of<layout_of<X>, tag_of<Es>>(*x.ctx)}) : void()), ...);
  }(dims_of<X>{});
  return out;
}

template <class P>
struct target_placement;
template <class D, class A>
struct target_placement<shard<D, A>> {
  using axis = A;
  using dim = D;
  static constexpr holds kind = holds::shard;
};
template <class A>
struct target_placement<invariant<A>> {
  using axis = A;
  using dim = void;
  static constexpr holds kind = holds::invariant;
};
template <class A>
struct target_placement<replicate<A>> {
  using axis = A;
  using dim = void;
  static constexpr holds kind = holds::replicate;
};
template <class A>
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
auto converted(const X& x, call_site at) {
  using to = target_placement<P>;
  using A = typename to::axis;
  constexpr on_axis from = state_on<layout_of<X>, A>;
  if constexpr (to::kind == holds::shard)
    static_assert(dims_of<X>::template has<typename to::dim>,
                  "weft: the dimension to shard is not a dimension of the tensor");
  constexpr on_axis into = [] {
    if constexpr (to::kind == holds::shard)
      return on_axis{holds::shard, id_of<typename to::dim>};
    else
      return on_axis{to::kind};
  }();
  constexpr bool same = from.dim == into.dim;
  constexpr movement there = forward_of(from.kind, to::kind, same);
  constexpr bool unvaried = there == movement::refused && from.kind == holds::replicate;
  static_assert(
      none<std::conditional_t<unvaried, replicated_over<A>, replicated_over<>>>,
      "weft: a replicate value can't become invariant, since its gradient is pending: make it invariant where "
      "it was made replicate, by convert<invariant<axis>>(x) of the slice or the pending sum in place of "
      "all_gather<axis>(x) or convert<replicate<axis>>(x)");
  constexpr bool addend = there == movement::refused && from.kind == holds::shard;
  static_assert(none<std::conditional_t<addend, sharded_over<A>, sharded_over<>>>,
                "weft: a slice can't become an addend of a sum by itself: convert<partial<axis>>(all_gather<axis>(x))");
  static_assert(from.kind != holds::shard || there == movement::none || innermost<layout_of<X>, A>,
                "weft: gather the innermost axis of a dimension first: its slices lie inside those of the outer axes");
  using result = basic_tensor<typename X::element_type, dims_of<X>, replaced<layout_of<X>, A, P>, typename X::backend>;
  if constexpr (there == movement::none && from.kind == to::kind) {
    return x;
  } else if constexpr (there != movement::refused) {
    using Backend = typename X::backend;
    using engine = conversion<Backend>;
    constexpr auto vjp = engine::template vjp<typename X::element_type>;
    const asked_for by{dims_text<dims_of<X>>(), at};
    if constexpr (is_whole(from))
      compare_converted<A>(x,
                           to::kind == holds::shard     ? "split"
                           : to::kind == holds::partial ? "convert<partial>"
                                                        : "convert<replicate>",
                           at);
    if constexpr (from.kind == holds::invariant && to::kind == holds::replicate) {
      return result(x.ctx->group(id_of<A>) ? engine::promote(x, id_of<A>, by, vjp)
                                           : engine::same(x, id_of<A>, by, vjp, true));
    } else {
      constexpr auto way = ways_of<Backend, there, backward_of(from.kind, to::kind, same)>();
      return result(engine::forward(x, id_of<A>, way, moved<A>(x, from, true), moved<A>(x, into, false), by, vjp));
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
  if constexpr (detail::one_axis_placement<P>) return detail::converted<P>(x, at);
}

/// Finishes the pending sum over A: `partial -> invariant`. Backward: nothing moves.
template <mesh_axis A, any_tensor X>
auto all_reduce(const X& x, call_site at = call_site::here()) {
  static_assert(detail::none<nothing_pending<layout_of<X>, A>>,
                "weft: all_reduce<axis>(x) needs a sum pending over that axis, and x has none: it would be counted "
                "once per rank; "
                "remove this all_reduce");
  static_assert(detail::none<pending_elsewhere<layout_of<X>, A>>,
                "weft: all_reduce<axis>(x) names another axis than x's sum is pending over: name that of this "
                "pending_sum_over<axis>");
  if constexpr (state_on<layout_of<X>, A>.kind == holds::partial) return convert<invariant<A>>(x, at);
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
  if constexpr (kind == holds::shard) return convert<replicate<A>>(x, at);
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
  if constexpr (state_on<layout_of<X>, A>.kind == holds::partial) return convert<shard<D, A>>(x, at);
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
  if constexpr (kind == holds::invariant || kind == holds::replicate) return convert<shard<D, A>>(x, at);
}

/// Shards D over A instead of the dimension sharded there now: `shard<d1> -> shard<D>`. Backward: all-to-all.
template <dimension D, mesh_axis A, any_tensor X>
auto all_to_all(const X& x, call_site at = call_site::here()) {
  static_assert(state_on<layout_of<X>, A>.kind == holds::shard && state_on<layout_of<X>, A>.dim != id_of<D>,
                "weft: all_to_all<dim, axis>(x) needs x sharded over that axis along another dimension: split<dim, "
                "axis>(x) shards what is whole, reduce_scatter<dim, axis>(x) what is pending");
  return convert<shard<D, A>>(x, at);
}

/// Every rank's slice goes to the next rank along A, the last rank's to the first (a ring).
/// Placement stays, since a type can't say whose slice it is: a shift too many, or one less, is a rank's slice in
/// another's place. ring<axis>(x, f) counts them. Backward: the other way round. Throws where the ranks don't divide
/// the sharded dimension: its last slice, which is shorter, can't become another's.
template <mesh_axis A, any_tensor X>
X shift(const X& x, call_site at = call_site::here()) {
  static_assert(state_on<layout_of<X>, A>.kind == holds::shard,
                "weft: shift<axis>(x) sends slices on: x has to be sharded over that axis");
  using Backend = typename X::backend;
  using engine = detail::conversion<Backend>;
  constexpr on_axis cut = state_on<layout_of<X>, A>;
  const detail::whole_over all = detail::over_shards<X>(x, cut);
  require(all.extent % all.ranks == 0, "shift<", A::name, ">(x): dimension ", cut.dim->name, " has ", all.extent,
          " elements, which ", all.ranks,
          " ranks don't divide, so their slices can't change places; choose an extent or degrees that divide");
  return X(engine::forward(x, id_of<A>, detail::ways_of<Backend, movement::shift, movement::shift_back>(), {}, {},
                           {dims_text<dims_of<X>>(), at}, engine::template vjp<typename X::element_type>));
}

/// Calls f(slice, owner) with the slice of every rank along A, each rank beginning with its own: `owner` is the index
/// of the rank whose slice it is. Between two calls the slices are shifted by one, degree - 1 times in all, so x itself
/// stays in its place. What f gathers is its own; a slice that it is given is another rank's, whatever its type says,
/// and is not to be kept beyond the call. All ranks call it. Backward: by that of the shifts. Throws as shift.
template <mesh_axis A, any_tensor X, class F>
requires std::invocable<F&, const X&, int>
void ring(const X& x, F&& f, call_site at = call_site::here()) {
  const int degree = x.ctx->template degree<A>();
  X slice = x;
  for (int step = 0;; ++step) {
    f(std::as_const(slice), (x.ctx->template index<A>() + degree - step) % degree);
    if (step + 1 == degree) return;
    slice = shift<A>(slice, at);
  }
}

}  // namespace weft
