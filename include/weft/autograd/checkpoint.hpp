// Recomputation: run a function, keeping little of what it computes, and again when its gradient is due.
// Invariant: the second run sees the same inputs and the same random counters, so it computes the same values.
#pragma once

#include <weft/autograd/record.hpp>
#include <weft/tensor/offload.hpp>

namespace weft {
namespace detail {

/// A function of a tensor that runs again in the backward, whatever their types.
struct checkpointed : movable_input {
  value (*call)(checkpointed&, const value& x);  // the function
  const gradient_work& of_input;
  const gradient_work& of_output;
  weft::replay operators;
  weft::tape again;
  input_offload* offload;  // where the input is between the runs; null: where it was
  ref<slot> seen = {};     // where the second run's gradient of the input collects

  checkpointed(decltype(call) f, const gradient_work& in, const gradient_work& out, context& ctx, const value& x,
               bool (*keeps)(const op_cost&), input_offload* to = nullptr)
      : movable_input(x, ctx.pass),
        call(f),
        of_input(in),
        of_output(out),
        operators(keeps, &ctx.records),
        again(&ctx.records),
        offload(to) {}

  // The first run is recorded too, on a tape that is thrown away: it says which values the backward will look at.
  WEFT_LINKED value first_run(context& ctx) {
    const value x = recorded_input(ctx);
    weft::tape once(&ctx.records, ctx.tape);
    value y;
    {
      const recording on(ctx, &once);
      const replay::scope noted(ctx, operators);
      y = call(*this, x);
    }
    operators.end_first_run([&](auto&& look) { once.each_saved(look); }, y);
    once.each_entry([&](const tape_node& n) { operators.note_numbers(n.name, n.numbers); });
    return y;
  }
  // The input as a leaf of the tape within.
  WEFT_LINKED value recorded_input(context& ctx) const {
    value x = input;
    x.data = x.held();
    if (!input.slot) return x;
    x.slot = new_slot(ctx, x.data, x.data.type);
    x.slot->live = input.slot->live;
    x.slot->of_weights = input.slot->of_weights;
    x.slot->frozen = input.slot->frozen;
    return x;
  }

  WEFT_LINKED static void vjp(context& ctx, tape_node& node) {
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
    contribute(ctx, node, 0, seen->gradient, self.of_input);
  }
  // False when nothing that the function reads wants a gradient.
  WEFT_LINKED bool second_run(context& ctx, tape_node& node) {
    operators.check_captured();
    if (moved()) offload->bring_back(*this);
    require(input.version() == version,
            "checkpoint: the tensor that it was given was updated or written to before its backward, which runs the "
            "function again: update weights and write after backward(loss)");
    operators.set_input(made, input.data.buffer.made());
    const value x = recorded_input(ctx);
    again.set_within(node.on());
    const scoped_value<std::int64_t> same_pass(ctx.pass, pass);
    const recording on(ctx, &again);
    const replay::scope recalling(ctx, operators);
    const value y = call(*this, x);
    std::size_t entries = 0;
    again.each_entry([&](const tape_node& n) { operators.check_numbers(entries++, n.name, n.numbers); });
    operators.end_second_run(entries, y);
    if (!y.slot) return false;
    add_gradient(ctx, y, node.output_gradient(), of_output);
    node.output->gradient = {};
    seen = x.slot;
    input = value();
    return true;
  }
};

/// A function F of an X.
template <class F, class X>
struct checkpointed_call : checkpointed {
  F f;
  checkpointed_call(F&& what, const X& x, context& ctx, bool (*keeps)(const op_cost&), input_offload* to)
      : checkpointed(run, gradients_of<X>, gradients_of<decltype(what(x))>, ctx, untyped(x), keeps, to),
        f(std::move(what)) {}

 private:
  template <class Y>
  static constexpr const gradient_work& gradients_of = gradients_by<typename Y::backend, typename Y::element_type>;
  static value run(checkpointed& self, const value& x) {
    return untyped(static_cast<checkpointed_call&>(self).f(X(x)));
  }
};

/// The first run, recorded as one operator.
WEFT_LINKED value record_checkpoint(const value& x, std::shared_ptr<checkpointed> function) {
  context& ctx = *x.ctx;
  const tape* const before = ctx.tape;
  value y = function->first_run(ctx);
  require(ctx.tape == before,
          "checkpoint: a no_grad or a recording that its function began hasn't ended with it, or it ended one of "
          "outside: let each begin and end on one side");
  if (!y.slot) return y;  // nothing that it read wants a gradient
  const char* lost = where_lost(*ctx.tape, "checkpoint", x);
  if (!lost) lost = y.slot->lost_in;
  y.slot = new_slot(ctx, y.data, y.data.type);
  if (lost) return mark_lost(*y.slot, lost), y;
  y.slot->epoch = ctx.tape->epoch();
  tape_node& node = ctx.tape->push();
  node.name = "checkpoint";
  node.in_every_part = true;
  node.numbers = function->operators.numbers();
  node.vjp = checkpointed::vjp;
  node.add_input(x);
  node.output = y.slot;
  // Not of a function within another, which runs again at once; nor of a parameter, which its store moves.
  const bool moves = function->offload && !ctx.replay && !(x.slot && x.slot->live) && x.data.elements() > 0;
  checkpointed& own = *function;
  node.state = std::move(function);
  if (moves) own.offload->move(own), own.operators.forget_captured(x.data.buffer);
  return y;
}

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
  context& ctx = *untyped(x).ctx;
  if (!ctx.tape) return f(x);
  if (ctx.replay) ctx.replay->mark_read(untyped(x));
  using function = checkpointed_call<F, X>;
  const auto keeps = [](const op_cost& cost) { return bool(Policy::keeps(cost)); };
  input_offload* to = nullptr;
  if constexpr (offloads_inputs<Policy>) to = offload_of<typename X::backend>(ctx);
  return std::remove_cvref_t<decltype(f(x))>(record_checkpoint(
      untyped(x),
      std::allocate_shared<function>(pool_allocator<function>(&ctx.records), std::move(f), x, ctx, keeps, to)));
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
