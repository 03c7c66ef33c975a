// What a conversion of any tensor does, once per backend: moves the data, records how to move the gradient back, and
// stands in for both where an axis has one rank. Split from convert.hpp so that types are checked there and data moves
// here. Invariant: what a program sees is the same whether the axis has one rank or several.
#pragma once

#include <weft/autograd/operate.hpp>
#include <weft/core/conversion.hpp>
#include <weft/op/agree.hpp>
#include <weft/op/move.hpp>
#include <weft/tensor/local_run.hpp>

namespace weft::detail {

/// What a conversion's collectives are for: the operation that asks for it, a tensor's dimensions, and the line.
struct asked_for {
  const char* operation;
  std::string_view tensor;
  call_site at;
};

struct conversion_attributes {
  axis_id axis;
  move_kernel back;
  moved_dim from, to;  // the sharded dimension before and after
  asked_for by;
};

using conversion_vjp = void (*)(context&, tape_node&);

template <class Backend>
struct conversion {
  static value forward(const value& x, axis_id axis, const movers& moves, moved_dim from, moved_dim to,
                       const asked_for& by, conversion_vjp vjp);
  /// Along an axis of one rank nothing moves, and what a program sees is as with more: the output is no leaf, has a
  /// gradient of its own, and memory of its own where an update of x's numbers would show, or if it is made a leaf.
  static value same(const value& x, axis_id axis, const asked_for& by, conversion_vjp vjp, bool promotes = false);
  /// Of a conversion of elements of type T.
  template <class T>
  static void vjp(context& ctx, tape_node& node);

  /// `invariant -> replicate`, once per tape.
  static value promote(const value& x, axis_id axis, const asked_for& by, conversion_vjp vjp);
};

template <class Backend>
value conversion<Backend>::forward(const value& x, axis_id axis, const movers& moves, moved_dim from, moved_dim to,
                                   const asked_for& by, conversion_vjp vjp) {
  context& ctx = *x.ctx;
  axis_group& group = ctx.along(axis);
  if (group.degree == 1) return same(x, axis, by, vjp);
  const collective_label label = ctx.label(by.operation, by.tensor, by.at);
  value y{x.ctx, x.whole, {}, {}};
  if (moves.what == movement::none ||
      moves.what == movement::keep_first) {  // where nothing is computed nothing is remembered
    y.data = moves.forward(ctx, group, x.held(), from, to, label);
    if (moves.what == movement::keep_first && ctx.replay) ctx.replay->mark_read(x);
  } else if (!ctx.replay || !ctx.replay->reuse_output(name_of(moves.what), y.data, {})) {
    y.data = moves.forward(ctx, group, x.held(), from, to, label);
    if (ctx.replay)
      ctx.replay->record_output({name_of(moves.what), 0, received_bytes(moves.what, x.held(), y.data, group.degree)},
                                y.data, {}, {&x});
  }
  const bool aliased = x.slot && x.slot->live && y.data.data == x.slot->live->at.data;
  if (aliased) y.data = x.data;  // a parameter moves, and so does what is the same memory
  const computed_by along(axis);
  if (x.ctx->replay) x.ctx->replay->given(along.hash());
  if (tape_node* node = record({"convert", vjp, 0, along}, y, {&x})) {
    node->set(conversion_attributes{axis, moves.backward, from, to, by});
    y.slot->keep_as(*x.slot);
  }
  if (aliased && y.slot) y.slot->live = x.slot->live;
  if (aliased && !y.slot && x.slot->frozen) y.slot = x.slot;
  if (aliased && !y.slot) y.data = copy_of<Backend>(ctx, x.held());
  return y;
}

template <class Backend>
value conversion<Backend>::same(const value& x, axis_id axis, const asked_for& by, conversion_vjp vjp, bool promotes) {
  const bool moves = x.slot && x.slot->live;  // a parameter's memory
  value y{x.ctx, x.whole, moves ? x.data : x.held(), {}};
  y.shares_memory = true;
  if (!moves && !promotes && (x.shares_memory || (x.slot && x.slot->epoch == 0))) give_own_memory<Backend>(y);
  if (y.shares_memory) y.data.buffer.lend();
  const computed_by along(axis);
  if (x.ctx->replay) x.ctx->replay->given(along.hash());
  if (tape_node* node = record({"convert", vjp, 0, along}, y, {&x})) {
    node->set(conversion_attributes{axis, nullptr, {}, {}, by});
    y.slot->keep_as(*x.slot);
    y.slot->live = x.slot->live;
  } else if (moves && x.slot->frozen) {
    y.slot = x.slot;
  } else if (moves) {
    y.data = copy_of<Backend>(*x.ctx, x.held());
  }
  return y;
}

template <class Backend>
template <class T>
void conversion<Backend>::vjp(context& ctx, tape_node& node) {
  const auto a = node.get<conversion_attributes>();
  const local_array& dy = node.output_gradient();
  if (!a.back) return contribute<Backend, T>(ctx, node, 0, dy);
  const collective_label label = ctx.label(a.by.operation, a.by.tensor, a.by.at, label_kind::gradient);
  contribute<Backend, T>(ctx, node, 0, a.back(ctx, ctx.along(a.axis), dy, a.to, a.from, label));
}

template <class Backend>
value conversion<Backend>::promote(const value& x, axis_id axis, const asked_for& by, conversion_vjp vjp) {
  context& ctx = *x.ctx;
  if (!x.slot || x.slot->frozen || !ctx.tape || ctx.along(axis).degree == 1) return x;
  const slot* const made = x.slot->promotions;
  if (made && made->epoch != ctx.tape->epoch()) x.slot->forget_promotions();  // for another tape
  for (slot* s = x.slot->promotions; s; s = s->next)
    if (s->promoted_over == axis) return {x.ctx, x.whole, x.data, ref<slot>(s)};
  value y{x.ctx, x.whole, x.data, {}};
  tape_node* node = record("promote", y, vjp, x);
  if (!node) return y;
  y.slot->live = x.slot->live;
  y.slot->keep_as(*x.slot);
  y.slot->of_weights = x.slot->of_weights;
  node->set(conversion_attributes{axis, move<Backend, movement::all_reduce>, {}, {}, by});
  x.slot->add_promotion(*y.slot, axis);
  return y;
}

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
  out.whole = untyped(x).sizes()[out.at];
  if (!is_share) return out;
  using outside = replaced<layout_of<X>, A, invariant<A>>;
  [&]<class... Es>(dims<Es...>) {
    int d = 0;
    ((d++ == out.at ? void(out.whole = run_of<outside, tag_of<Es>>(*untyped(x).ctx, untyped(x).whole[out.at]).local)
                    : void()),
     ...);
  }(dims_of<X>{});
  return out;
}

}  // namespace weft::detail
