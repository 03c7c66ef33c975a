// The gated unit of SwiGLU (Shazeer 2020), fused: silu(gate) * up. Invariant: nothing but its two inputs is kept.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/op/pair_rule.hpp>

namespace weft {
namespace detail {

template <class Backend, class T>
struct swiglu_operator {
  static value forward(const value& gate, const value& up);
  static void vjp(context& ctx, tape_node& node) {
    const local_array& dy = node.output_gradient();
    const gradient_target dgate = scratch(ctx, node, 0), dup = scratch(ctx, node, 1);
    Backend::swiglu_backward(ctx.queue<Backend>(), dy.elements(), node.saved(0).template as<T>(),
                             node.saved(1).template as<T>(), dy.template as<T>(), dgate.to.template as<T>(), dgate.add,
                             dup.to.template as<T>(), dup.add);
    add_separate<Backend, T>(ctx, node, 0, dgate);
    add_separate<Backend, T>(ctx, node, 1, dup);
  }
  // The kernel writes both gradients; one that is not wanted goes nowhere.
  static gradient_target scratch(context& ctx, tape_node& node, int i) {
    if (node.input(i)) return separate_target<Backend, T>(ctx, node, i);
    return {ctx.make(dtype_of<T>, node.output_gradient().shape), false};
  }
};

template <class Backend, class T>
value swiglu_operator<Backend, T>::forward(const value& gate, const value& up) {
  return operate_like<T>(
      gate, {"swiglu", vjp, 12.0 * static_cast<double>(gate.held().elements())}, {&gate, &up},
      [&](const local_array& y) {
        Backend::swiglu(gate.ctx->queue<Backend>(), y.elements(), gate.held().template as<T>(),
                        up.held().template as<T>(), y.template as<T>());
      },
      [&](tape_node& node) { node.save(gate), node.save(up); });
}

}  // namespace detail

/// Shape: gate and up have the same dimensions in the same order; so has the output. Placement: alike on both, not
/// partial. Cost: 12 operations an element.
template <any_tensor G, any_tensor U>
auto swiglu(const G& gate, const U& up, call_site at = call_site::here()) {
  constexpr bool alike = std::same_as<dims_of<G>, dims_of<U>>;
  static_assert(alike, "weft: swiglu(gate, up) needs the same dimensions in the same order");
  static_assert(detail::none<integers_in<G, U>>,
                "weft: swiglu(gate, up) takes floating elements: cast<float>(x) the integers");
  static_assert(detail::none<pending_in<layout_of<G>>> && detail::none<pending_in<layout_of<U>>>,
                "weft: swiglu of a pending sum is not the sum of the swiglus: all_reduce<axis> it first");
  if constexpr (alike && detail::none<integers_in<G, U>> && !has_partial<layout_of<G>> && !has_partial<layout_of<U>>) {
    using rule = detail::pair_rule<detail::pairing::sum, G, U>;
    if constexpr (rule::ok) {
      detail::check_shared_extents(gate, up);
      using result = basic_tensor<typename G::element_type, dims_of<G>, typename rule::layout, typename G::backend>;
      return result(detail::swiglu_operator<typename G::backend, typename G::element_type>::forward(
          detail::promoted<typename rule::layout>(gate, "swiglu", at),
          detail::promoted<typename rule::layout>(up, "swiglu", at)));
    }
  }
}

}  // namespace weft
