// Recomputation: run a function without recording it, and again, recording, when its gradient is due.
// Invariant: the second run sees the same inputs and the same random counters, so it computes the same values.
#pragma once

#include <weft/autograd/tape.hpp>

namespace weft {
namespace detail {

template <class F, class X, class Y>
struct checkpointed {
  F f;
  X input;
  weft::tape again;

  static void vjp(context& rank, tape_node& node) {
    auto& self = *static_cast<checkpointed*>(node.state.get());
    if (node.part() == backward_part::weights) return self.again.backward_weights(rank);
    X x = self.input;
    x.data = x.held();
    x.slot = node.input(0) ? new_slot(x.held(), x.held().type) : ref<slot>();
    {
      recording on(rank, &self.again);
      Y y = self.f(x);
      if (!y.slot) return;  // nothing that the function reads wants a gradient
      y.slot->gradient = node.output_gradient();
      y.slot->has_gradient = true;
      node.output->gradient = {};
    }
    self.input = X();
    if (node.part() == backward_part::inputs) self.again.backward_inputs(rank);
    else self.again.backward(rank);
    if (node.input(0) && x.slot->has_gradient) contribute<typename X::backend>(rank, node, 0, x.slot->gradient);
  }
};

}  // namespace detail

/// y = f(x), keeping only x. f is copied and called once more in the backward; leaves that it reads beside x (parameters)
/// get their gradients as usual.
template <class F, any_tensor X>
auto checkpoint(F f, const X& x) {
  using Y = decltype(f(x));
  context& rank = *x.rank;
  if (!rank.tape) return f(x);
  Y y;
  {
    recording off(rank, nullptr);
    y = f(x);
  }
  y.slot = detail::new_slot(y.data, y.data.type);
  auto state = std::make_shared<detail::checkpointed<F, X, Y>>(detail::checkpointed<F, X, Y>{std::move(f), x, {}});
  y.slot->epoch = rank.tape->epoch();
  tape_node& node = rank.tape->push();
  node.name = "checkpoint";
  node.in_every_part = true;
  node.vjp = detail::checkpointed<F, X, Y>::vjp;
  node.add_input(x);
  node.output = y.slot;
  node.state = std::move(state);
  return y;
}

}  // namespace weft
