// Recomputation: run a function, keeping little of what it computes, and again when its gradient is due.
// Invariant: the second run sees the same inputs and the same random counters, so it computes the same values.
#pragma once

#include <weft/autograd/record.hpp>

namespace weft {
namespace detail {

template <class F, class X, class Y>
struct checkpointed {
  F f;
  X input;
  weft::replay operators;
  weft::tape again;
  std::uint32_t version;  // of the input
  ref<slot> seen = {};    // where the second run's gradient of the input collects

  // The first run is recorded too, on a tape that is thrown away: it says which values the backward will look at.
  Y first_run(context& ctx) {
    const X x = recorded_input(ctx);
    weft::tape once(&ctx.records, ctx.tape);
    Y y;
    {
      const recording on(ctx, &once);
      const replay::scope noted(ctx, operators);
      y = f(x);
    }
    operators.end_first_run([&](auto&& look) { once.each_saved(look); }, untyped(y));
    once.each_entry([&](const tape_node& n) { operators.note_numbers(n.name, n.numbers); });
    return y;
  }
  // The input as a leaf of the tape within.
  X recorded_input(context& ctx) const {
    X x = input;
    untyped(x).data = untyped(x).held();
    if (!untyped(input).slot) return x;
    untyped(x).slot = new_slot(ctx, untyped(x).data, untyped(x).data.type);
    untyped(x).slot->live = untyped(input).slot->live;
    untyped(x).slot->of_weights = untyped(input).slot->of_weights;
    untyped(x).slot->frozen = untyped(input).slot->frozen;
    return x;
  }

  static void vjp(context& ctx, tape_node& node) {
    auto& self = *static_cast<checkpointed*>(node.state.get());
    if (node.part() != backward_part::weights && !self.second_run(ctx, node)) return;
    if (node.part() == backward_part::weights && !self.again.half_done()) return;
    if (node.part() == backward_part::all)
      self.again.backward(ctx);
    else if (node.part() == backward_part::inputs)
      self.again.backward_inputs(ctx);
    else
      self.again.backward_weights(ctx);
    if (!node.input(0) || !self.seen || !self.seen->has_gradient) return;
    const ref<slot> seen = std::move(self.seen);
    contribute<typename X::backend, typename X::element_type>(ctx, node, 0, seen->gradient);
  }
  // False when nothing that the function reads wants a gradient.
  bool second_run(context& ctx, tape_node& node) {
    operators.check_captured();
    require(untyped(input).version() == version,
            "checkpoint: the tensor that it was given was updated or written to before its backward, which runs the "
            "function again: update weights and write after backward(loss)");
    const X x = recorded_input(ctx);
    again.set_within(node.on());
    const recording on(ctx, &again);
    const replay::scope recalling(ctx, operators);
    const Y y = f(x);
    std::size_t entries = 0;
    again.each_entry([&](const tape_node& n) { operators.check_numbers(entries++, n.name, n.numbers); });
    operators.end_second_run(entries, untyped(y));
    if (!untyped(y).slot) return false;
    add_gradient<typename Y::backend, typename Y::element_type>(ctx, untyped(y), node.output_gradient());
    node.output->gradient = {};
    seen = untyped(x).slot;
    input = X();
    return true;
  }
};

/// Whether a function can be checkpointed; where it can't, a sentence says why.
template <class F, class X>
constexpr bool check_checkpointed() {
  constexpr bool takes = requires(F & f, const X& x) { f(x); };
  static_assert(takes,
                "weft: checkpoint(f, x) calls f(x), and f doesn't take this x: write it as [=](const auto& x) { return "
                "...; }, and let it capture what else it reads");
  if constexpr (takes) {
    constexpr bool gives = any_tensor<decltype(std::declval<F&>()(std::declval<const X&>()))>;
    static_assert(gives,
                  "weft: checkpoint(f, x): f gives back one tensor, and no number, loss{...} or nothing: let it return "
                  "the tensor that these are made from, and make them of what checkpoint(f, x) gives back");
    return gives;
  }
  return false;
}

template <class Policy, class F, class X>
auto run_checkpoint(F f, const X& x) {
  using Y = std::remove_cvref_t<decltype(f(x))>;
  context& ctx = *untyped(x).ctx;
  if (!ctx.tape) return f(x);
  if (ctx.replay) ctx.replay->mark_read(untyped(x));
  using function = detail::checkpointed<F, X, Y>;
  const auto keeps = [](const op_cost& cost) { return bool(Policy::keeps(cost)); };
  auto state = std::allocate_shared<function>(
      pool_allocator<function>(&ctx.records),
      function{std::move(f), x, weft::replay(keeps, &ctx.records), weft::tape(&ctx.records), untyped(x).version()});
  const tape* const before = ctx.tape;
  Y y = state->first_run(ctx);
  require(ctx.tape == before,
          "checkpoint: a no_grad or a recording that its function began hasn't ended with it, or it ended one of "
          "outside: let each begin and end on one side");
  if (!untyped(y).slot) return y;  // nothing that it read wants a gradient
  const char* lost = detail::where_lost(*ctx.tape, "checkpoint", untyped(x));
  if (!lost) lost = untyped(y).slot->lost_in;
  untyped(y).slot = detail::new_slot(ctx, untyped(y).data, untyped(y).data.type);
  if (lost) return detail::mark_lost(*untyped(y).slot, lost), y;
  untyped(y).slot->epoch = ctx.tape->epoch();
  tape_node& node = ctx.tape->push();
  node.name = "checkpoint";
  node.in_every_part = true;
  node.numbers = state->operators.numbers();
  node.vjp = function::vjp;
  node.add_input(untyped(x));
  node.output = untyped(y).slot;
  node.state = std::move(state);
  return y;
}

}  // namespace detail

/// y = f(x), keeping x and what the policy wants of the operators' outputs. f is copied and called once more in the
/// backward, where what nobody looks at any more is left out; leaves that it reads beside x (parameters) get their
/// gradients as usual. f runs the same operators both times and reads tensors through operators only. A unit's boundary
/// goes round a checkpoint.
template <checkpointing_policy Policy = checkpoint_full, class F, any_tensor X>
auto checkpoint(F f, const X& x) {
  if constexpr (detail::check_checkpointed<F, X>()) return detail::run_checkpoint<Policy>(std::move(f), x);
}
/// Refused: it takes a function of one tensor, and that tensor.
template <checkpointing_policy Policy = checkpoint_full, class F, class... Xs>
requires(sizeof...(Xs) != 1 || !(any_tensor<Xs> && ...)) void checkpoint(const F&, const Xs&...) {
  static_assert(sizeof(F) == 0,
                "weft: checkpoint(f, x) takes a function of one tensor, and that tensor: let f capture the others by "
                "value, checkpoint([y](const auto& x) { return x * y; }, x)");
}
/// Refused: another policy than a checkpointing one.
template <class Policy, class... Args>
requires(!checkpointing_policy<Policy>) void checkpoint(const Args&...) {
  static_assert(sizeof(Policy) == 0,
                "weft: checkpoint<policy>(f, x) names a checkpointing policy, checkpoint_full, checkpoint_selective or "
                "one of your own, and this is another type");
}

}  // namespace weft
