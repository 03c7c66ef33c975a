// How an operator records itself: an entry on the rank's tape, and the slot that its output's gradient collects in.
// Invariant: what was backpropagated, forgotten or belongs to another tape can be read; backpropagating it is refused.
#pragma once

#include <span>

#include <weft/autograd/gradients.hpp>
#include <weft/tensor/tape.hpp>

namespace weft {
namespace detail {

inline ref<slot> new_slot(context& ctx, const local_array& of, dtype type) {
  ref<slot> made = slot::make(&ctx.records);
  made->shape = of.shape;
  made->type = type;
  return made;
}

/// Throws where tensors of two launches, or of none, meet in one operator.
WEFT_LINKED void require_one_context(std::string_view name, std::initializer_list<const value*> inputs) {
  for (const value* v : inputs) v->ctx.get();
  for (const value* v : inputs)
    require(v->ctx == (*inputs.begin())->ctx, name, ": tensors of two launches meet; make both with one context");
}

/// The operator in which the gradient of v is lost, `name` being the one that reads it: a tape backpropagated v
/// already, or forgot it, or isn't one that `on` runs within. Null: it isn't lost.
[[gnu::noinline]] inline const char* where_lost(const tape& on, const char* name, const value& v) {
  if (!v.slot || (!v.slot->lost_in && on.leads_to(v.slot->epoch))) return nullptr;
  return v.slot->lost_in ? v.slot->lost_in : name;
}

/// Values made of what is lost can be read, as a loss that was backpropagated already; backpropagating them throws.
inline void mark_lost(slot& s, const char* in) {
  s.epoch = tape::no_epoch;
  s.lost_in = in;
}
/// Throws where the gradient of v, a loss or a function's output, would be lost on its way.
inline void require_recorded(const char* what, const value& v) {
  if (v.slot && v.slot->lost_in) [[unlikely]]
    fail(what, ": ", v.slot->lost_in,
         " read a value that is no longer recorded: an earlier backward went through it or forgot it, or it belongs "
         "to another tape, so its gradient would be lost; compute it again, add the losses up and backpropagate their "
         "sum at once, or use detach(x) where no gradient is wanted");
}

/// Pushes an entry when something is recording and an input wants a gradient; gives `out` its slot. Null otherwise, and
/// where an input's gradient would be lost: only carrying `out` back is refused then.
WEFT_LINKED tape_node* new_entry(const char* name, value& out, void (*vjp)(context&, tape_node&),
                                 std::span<const value* const> inputs) {
  tape* to = out.ctx->tape;
  bool wanted = false;
  for (const value* input : inputs) wanted = wanted || (input->slot && !input->slot->frozen);
  if (!to || !wanted) return nullptr;
  const char* lost = nullptr;
  for (const value* input : inputs)
    if (!lost && input->slot && input->slot->epoch && input->slot->epoch != to->epoch())
      lost = where_lost(*to, name, *input);
  out.slot = new_slot(*out.ctx, out.data, out.data.type);
  if (lost) [[unlikely]]
    return mark_lost(*out.slot, lost), nullptr;
  out.slot->epoch = to->epoch();
  tape_node& node = to->push();
  node.name = name;
  node.vjp = vjp;
  for (const value* input : inputs) node.add_input(*input);
  node.output = out.slot;
  return &node;
}
/// The same for an operator, of which a function that runs twice is told.
WEFT_LINKED tape_node* record(const char* name, value& out, void (*vjp)(context&, tape_node&),
                              std::initializer_list<const value*> inputs) {
  require_one_context(name, inputs);
  if (out.ctx->replay) out.ctx->replay->recorded(name, out, inputs, reinterpret_cast<std::uintptr_t>(vjp));
  return new_entry(name, out, vjp, {inputs.begin(), inputs.size()});
}
template <class... Inputs>
tape_node* record(const char* name, value& out, void (*vjp)(context&, tape_node&), const Inputs&... inputs) {
  return record(name, out, vjp, {&untyped(inputs)...});
}

}  // namespace detail
}  // namespace weft
