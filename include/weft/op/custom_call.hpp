// A call of a function that brings its own backward, below its types: one entry of the tape for the function, and one
// for each of several outputs, which hands that output's gradient on. Invariant: the backward of a call runs once,
// whatever parts a backward has and however many of its outputs are used.
#pragma once

#include <span>

#include <weft/autograd/operate.hpp>
#include <weft/op/move.hpp>

namespace weft::detail {

/// Whether a has memory of b's.
inline bool overlap(const local_array& a, const local_array& b) {
  const auto *from = static_cast<const std::byte*>(a.data), *of = static_cast<const std::byte*>(b.data);
  return from && of && from < of + b.bytes() && of < from + a.bytes();
}

struct custom_call {
  struct output {
    shape whole, local;
    dtype type = dtype::f32;
    local_array gradient = {};  // empty until it comes, and of an output that nobody used
  };
  struct operand {
    shape whole;
    const gradient_work* by = nullptr;
    local_array gradient = {};  // what the backward gave, until it is handed on
  };
  const char* name;
  void (*backward)(context&, custom_call&, tape_node&);  // gives the inputs their gradients
  std::span<operand> inputs;
  std::span<output> outputs;  // those of floating elements
  bool ran = false;

  /// The entry of the function, whose output is its own or stands for all.
  WEFT_LINKED static void vjp(context& ctx, tape_node& node) {
    auto& self = *static_cast<custom_call*>(node.state.get());
    if (self.outputs.size() == 1) self.outputs[0].gradient = node.output_gradient();
    if (!std::exchange(self.ran, true)) self.backward(ctx, self, node);
    node.forget_saved();
    for (output& y : self.outputs) y.gradient = {};
    for (int i = 0; i < static_cast<int>(self.inputs.size()); ++i) {
      operand& x = self.inputs[static_cast<std::size_t>(i)];
      if (node.wants_later(i)) continue;
      if (node.input(i)) contribute(ctx, node, i, x.gradient, *x.by);
      x.gradient = {};
    }
  }
  /// The entry of one of several outputs.
  WEFT_LINKED static void collect(context&, tape_node& node) {
    auto& self = *static_cast<custom_call*>(node.state.get());
    self.outputs[static_cast<std::size_t>(node.get<int>())].gradient = node.output_gradient();
    node.input(0)->has_gradient = true;
  }

  /// What the backward gave for input i, of those of floating elements; nothing, where nobody wants it, will do. Throws
  /// where somebody does, and where it has other extents.
  template <class Backend>
  void give(context& ctx, tape_node& node, std::size_t i, const value& g) {
    operand& x = inputs[i];
    if (!g.ctx) {
      require(!node.ever_wants(static_cast<int>(i)), name, ": gradient ", i,
              " of its vjp is empty, and its input wants one (wants_gradient)");
      return;
    }
    x.gradient = g.held();
    for (int d = 0; d < x.whole.ndim; ++d)
      require(g.whole[d] == x.whole[d], name, ": gradient ", i, " of its vjp has ", g.whole[d],
              " elements in dimension ", d, ", of which its input has ", x.whole[d]);
    for (int k = 0; k < node.saved_count(); ++k)  // which others write to, or which moves
      if (overlap(x.gradient, node.saved(k))) x.gradient = copy_of<Backend>(ctx, x.gradient);
  }
};

/// What a vjp is given: others have the same memory, so it is copied when it is written to.
inline value lent_to_vjp(context& ctx, const shape& whole, const local_array& data) {
  value v{&ctx, whole, data, {}};
  v.gradient_of = 1;
  return v;
}

inline bool is_leaf(const value& x) { return x.slot && (x.slot->live || x.slot->epoch == 0); }
/// What a function gave back, as a tensor of its own: without a slot; with memory that stays, which isn't a leaf's, and
/// which isn't written to while others have it. made: all that it gave back.
template <class Backend>
value own_output(const value& y, std::span<const value* const> inputs, std::span<const value* const> made) {
  bool copies = is_leaf(y), shared = y.shares_memory || y.slot;
  for (const value* x : inputs)
    if (overlap(y.data, x->data)) shared = true, copies = copies || is_leaf(*x);
  for (const value* other : made) shared = shared || (other != &y && overlap(y.data, other->data));
  value out = y;
  if (copies && y.held()) out.data = copy_of<Backend>(*y.ctx, y.held());
  out.slot = {}, out.gradient_of = 0, out.shares_memory = shared && !copies;
  if (out.shares_memory) out.data.buffer.lend();
  return out;
}

/// Records the call, in which `outputs` were made of `inputs`, both of floating elements, and whose backward reads
/// `kept`.
WEFT_LINKED void record_call(const std::shared_ptr<custom_call>& call, std::span<value* const> outputs,
                             std::span<const value* const> inputs, std::span<const value* const> kept,
                             std::uint64_t numbers) {
  value all{outputs[0]->ctx, {}, local_array(nullptr, dtype::f32, shape()), {}};  // stands for several outputs
  value& made = outputs.size() == 1 ? *outputs[0] : all;
  if (tape_node* const node = new_entry(call->name, made, custom_call::vjp, inputs)) {
    for (const value* k : kept) node->save(*k);
    node->state = call, node->numbers = numbers;
  }
  if (outputs.size() == 1) return;
  const value* const from[] = {&all};
  for (std::size_t j = 0; j < outputs.size(); ++j)
    if (tape_node* const node = new_entry(call->name, *outputs[j], custom_call::collect, from)) {
      node->set(static_cast<int>(j));
      node->state = call, node->numbers = numbers;
    }
}

}  // namespace weft::detail
