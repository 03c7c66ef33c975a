// What operators take to be the same on every rank: inputs that are whole on an axis on which the output is not, since
// there ranks begin to do different things with them. Invariant: nothing happens unless launch_options.check is on;
// which ranks compare what follows from the types alone.
#pragma once

#include <weft/autograd/record.hpp>
#include <weft/comm/compare.hpp>
#include <weft/op/placed.hpp>

namespace weft::detail {

/// The axes on which x is whole and Out is not, or is whole in another way; those of its promotions on this tape left
/// out, since they were compared then.
template <class Out, any_tensor X>
axis_list axes_to_compare(const X& x) {
  axis_list out;
  const auto promoted_on = [&](axis_id axis) {
    if (!untyped(x).slot || !untyped(x).ctx->tape) return false;
    for (const slot* s = untyped(x).slot->promotions; s && s->epoch == untyped(x).ctx->tape->epoch(); s = s->next)
      if (s->promoted_over == axis) return true;
    return false;
  };
  const auto visit = [&](bool compared, axis_id axis) {
    if (compared && !promoted_on(axis)) out.at[out.count++] = axis;
  };
  [&]<class... As>(tag_list<As...>) {
    static_assert(sizeof...(As) <= axis_list::most, "weft: a layout has at most 8 axes");
    (visit(is_whole(state_on<layout_of<X>, As>) && state_on<Out, As>.kind != holds::invariant &&
               state_on<Out, As>.kind != state_on<layout_of<X>, As>.kind,
           id_of<As>),
     ...);
  }(axes_of<Out>{});
  return out;
}

/// An operator whose output is placed as Out takes x. at: of the operator's call, where that is known.
template <class Out, any_tensor X>
void compare_operand(const X& x, const char* operation, call_site at) {
  if (!untyped(x).ctx || !untyped(x).ctx->check) [[likely]]
    return;
  const call_site after = untyped(x).ctx->check->called(at);
  const axis_list axes = axes_to_compare<Out>(x);
  if (axes.count > 0)
    compare_along<typename X::backend>(untyped(x), valid_part(x), {operation, dims_text<dims_of<X>>(), at, after},
                                       axes);
}

/// x is converted on axis A, where it is whole.
template <class A, any_tensor X>
void compare_converted(const X& x, const char* operation, call_site at) {
  if (!untyped(x).ctx || !untyped(x).ctx->check) [[likely]]
    return;
  untyped(x).ctx->check->called(at);
  compare_along<typename X::backend>(untyped(x), valid_part(x), {operation, dims_text<dims_of<X>>(), at},
                                     {{id_of<A>}, 1});
}

}  // namespace weft::detail
