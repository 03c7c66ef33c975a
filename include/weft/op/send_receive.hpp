// The shift of the conversion table in its two halves, for ranks that are at different places of a program: one sends
// its slice, and the next one receives it later or earlier. Invariant: gradients go the other way; the ranks are a
// line, not a ring: the first one receives nothing, and the last one sends nothing.
#pragma once

#include <weft/autograd/record.hpp>
#include <weft/core/conversion.hpp>
#include <weft/op/create.hpp>
#include <weft/tensor/local_run.hpp>

namespace weft {

namespace detail {
/// These sizes below an outermost dimension of `outermost`.
inline shape stack_sizes(const shape& slice, std::int64_t outermost) {
  shape out{1, {outermost}};
  for (int d = 0; d < slice.ndim; ++d) out.push_back(slice[d]);
  return out;
}

/// x as this rank's slice of a stack of such tensors, one a rank: [D/A = 1, dims of x], sharded over A. Inside the
/// slice neither the dimension nor the axis occurs, as inside a function that is mapped over a dimension. Moves
/// nothing.
template <dimension D, mesh_axis A, any_tensor X>
using stack_of = basic_tensor<typename X::element_type, dims_concat<dims<D>, dims_of<X>>,
                              replaced<layout_of<X>, A, shard<D, A>>, typename X::backend>;

/// x seen so. Placement: invariant on A, without D. Copies nothing; the output is not recorded.
template <dimension D, mesh_axis A, any_tensor X>
stack_of<D, A, X> stacked(const X& x) {
  static_assert(state_on<layout_of<X>, A>.kind == holds::invariant && !dims_of<X>::template has<D>,
                "weft: stacked<dim, axis>(x) takes a slice in which neither the dimension nor the axis occurs");
  const std::int64_t slices = untyped(x).ctx->template degree<A>();
  return stack_of<D, A, X>(value{untyped(x).ctx,
                                 stack_sizes(untyped(x).whole, slices),
                                 untyped(x).held().reshaped(stack_sizes(untyped(x).sizes(), 1)),
                                 {}});
}

inline axis_group& neighbours(context& ctx, axis_id axis, int step, const char* what) {
  axis_group& group = ctx.along(axis);
  const int peer = group.index + step;
  require(peer >= 0 && peer < group.degree, what, ": this rank has no neighbour on that side of the axis");
  return group;
}

// The neighbour says the same: of which unit the slice is, only one of them knows.
template <movement Way, any_tensor X>
collective_label send_label(const context& ctx) {
  return {Way == movement::shift ? "shift" : "shift back", dims_text<dims_of<X>>(), {}, ctx.micro_batch};
}

/// x's slice to the rank `to` of the axis's group, and one from `from`; checked by who calls.
template <movement Way, any_tensor X>
request send_to(const X& x, axis_group& group, int to, int tag) {
  return group.comm.send(untyped(x).held().data, untyped(x).held().bytes(), to, tag,
                         send_label<Way, X>(*untyped(x).ctx));
}
template <movement Way, any_tensor X>
X receive_from(context& ctx, const shape& whole, axis_group& group, int from, int tag) {
  const X x = empty_tensor<X>(ctx, whole);
  group.comm.recv(untyped(x).data.data, untyped(x).data.bytes(), from, tag, send_label<Way, X>(ctx)).wait(ctx.order());
  return x;
}

// What a virtual stage sends on, and what it sends back, has a tag of its own.
inline int stage_tag(movement way, int from) { return 2 * from + (way == movement::shift_back); }

}  // namespace detail

/// Sends this rank's slice to the next rank along A (Way = shift), or to the one before (shift_back). Not recorded: the
/// receiver sends its gradient back. x has to live until the request is complete. Throws where there is no neighbour.
template <movement Way, mesh_axis A, any_tensor X>
request send_slice(const X& x) {
  static_assert(state_on<layout_of<X>, A>.kind == holds::shard,
                "weft: send_slice<way, axis>(x) sends slices: x has to be sharded over that axis");
  static_assert(Way == movement::shift || Way == movement::shift_back, "weft: slices are sent by shift or shift_back");
  constexpr int step = Way == movement::shift ? 1 : -1;
  axis_group& group = detail::neighbours(*untyped(x).ctx, id_of<A>, step, "send_slice");
  return detail::send_to<Way>(x, group, group.index + step, 0);
}

/// The other half: this rank's slice of a tensor of these global sizes, as the rank before along A sends it (Way =
/// shift), or the next one (shift_back). Waits for it.
template <movement Way, mesh_axis A, any_tensor X>
X receive_slice(context& ctx, const shape& whole) {
  static_assert(state_on<layout_of<X>, A>.kind == holds::shard,
                "weft: receive_slice<way, axis> takes slices: the tensor has to be sharded over that axis");
  static_assert(Way == movement::shift || Way == movement::shift_back, "weft: slices are sent by shift or shift_back");
  constexpr int step = Way == movement::shift ? -1 : 1;
  axis_group& group = detail::neighbours(ctx, id_of<A>, step, "receive_slice");
  return detail::receive_from<Way, X>(ctx, whole, group, group.index + step, 0);
}

/// A pipeline sends its residual stream as one slice of a stack over the layers, sharded over pp.
template <movement Way, any_tensor X>
request send(const X& x) {
  return send_slice<Way, pp>(detail::stacked<layer, pp>(x));
}
/// The other half of send: x as the neighbouring rank sent it, of these global sizes.
template <movement Way, any_tensor X>
X receive(context& ctx, const shape& whole) {
  const auto slice =
      receive_slice<Way, pp, detail::stack_of<layer, pp, X>>(ctx, detail::stack_sizes(whole, ctx.degree<pp>()));
  return X(value{&ctx, whole, untyped(slice).data.reshaped(local_shape<X>(ctx, whole)), {}});
}

/// From virtual stage `from`, which is this rank's, to the next one (Way = shift) or the one before (shift_back), which
/// lies on rank `to` of pp.
template <movement Way, any_tensor X>
request send(const X& x, int from, int to) {
  return detail::send_to<Way>(detail::stacked<layer, pp>(x), untyped(x).ctx->along(id_of<pp>), to,
                              detail::stage_tag(Way, from));
}
/// The other half: x as virtual stage `from`, which lies on rank `rank` of pp, sent it, of these global sizes.
template <movement Way, any_tensor X>
X receive(context& ctx, const shape& whole, int from, int rank) {
  using stack = detail::stack_of<layer, pp, X>;
  const auto slice = detail::receive_from<Way, stack>(ctx, detail::stack_sizes(whole, ctx.degree<pp>()),
                                                      ctx.along(id_of<pp>), rank, detail::stage_tag(Way, from));
  return X(value{&ctx, whole, untyped(slice).data.reshaped(local_shape<X>(ctx, whole)), {}});
}

}  // namespace weft
