// What operators take to be the same on every rank: inputs that are whole on an axis on which the output is not, since
// there ranks begin to do different things with them. Invariant: nothing happens unless launch_options.check is on;
// which ranks compare what follows from the types alone.
#pragma once

#include <weft/autograd/record.hpp>
#include <weft/op/placed.hpp>
#include <weft/tensor/compare.hpp>

namespace weft::detail {

/// What a tensor's type says, where an input is compared.
struct compared_type {
  std::span<const dimension_type> dimensions;
  std::string_view text;  // the dimensions' names
  void (*compare)(const value&, const shape&, const compared_value&, const axis_list&);
};
template <any_tensor X>
constexpr compared_type compared_type_of() {
  return {dimensions_of<X>, dims_text<dims_of<X>>(), compare_along<typename X::backend>};
}

/// The axes on which X is whole and Out is not, or is whole in another way.
template <class Out, any_tensor X>
inline constexpr axis_set axes_that_begin_to_differ = []<class... As>(tag_list<As...>) {
  axis_set out;
  ((is_whole(state_on<layout_of<X>, As>) && state_on<Out, As>.kind != holds::invariant &&
            state_on<Out, As>.kind != state_on<layout_of<X>, As>.kind
        ? out.add(id_of<As>)
        : void()),
   ...);
  return out;
}(axes_of<Out>{});

/// On these axes, those of its promotions on this tape left out, since it was compared then.
[[gnu::cold]] WEFT_LINKED void compare_operand(const value& x, const compared_type& type, const axis_set& axes,
                                               const char* operation, call_site at) {
  const auto promoted_on = [&](axis_id axis) {
    if (!x.slot || !x.ctx->tape) return false;
    for (const slot* s = x.slot->promotions; s && s->epoch == x.ctx->tape->epoch(); s = s->next)
      if (s->promoted_over == axis) return true;
    return false;
  };
  const call_site after = x.ctx->check->called(at);
  axis_list compared;
  for (const axis_id axis : axes)
    if (!promoted_on(axis)) compared.at[compared.count++] = axis;
  if (compared.count > 0) type.compare(x, valid_part(x, type.dimensions), {operation, type.text, at, after}, compared);
}
/// An operator whose output is placed as Out takes x. at: of the operator's call, where that is known.
template <class Out, any_tensor X>
void compare_operand(const X& x, const char* operation, call_site at) {
  if (!untyped(x).ctx || !untyped(x).ctx->check) [[likely]]
    return;
  compare_operand(untyped(x), compared_type_of<X>(), axes_that_begin_to_differ<Out, X>, operation, at);
}

/// x is converted on axis A, where it is whole.
template <class A, any_tensor X>
void compare_converted(const X& x, const char* operation, call_site at) {
  if (!untyped(x).ctx || !untyped(x).ctx->check) [[likely]]
    return;
  untyped(x).ctx->check->called(at);
  compare_along<typename X::backend>(untyped(x), valid_part(untyped(x), dimensions_of<X>),
                                     {operation, dims_text<dims_of<X>>(), at}, {{id_of<A>}, 1});
}

}  // namespace weft::detail
