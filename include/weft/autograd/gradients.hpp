// How an operator's vjp gives its inputs their gradients. An input's gradient may be kept in another type than its
// value (main gradients), may lie in memory that is given (a parameter's), and may hold what another operator added
// already; so no vjp writes a slot itself. It takes one of five, by where the gradient of input i comes from:
//
//   it is there already, as an array (the output's, a view of it):  contribute(ctx, node, i, array)
//   a kernel writes it, and no other:                              compute_gradient(ctx, node, i, f), which calls
//                                                                  f(T* to, bool add)
//   a kernel writes those of several inputs at once:               separate_target for each, then the kernel, then
//                                                                  add_separate for each
//   a kernel writes whichever type the slot has:                   target(ctx, node, i)
//   it comes from outside of any entry (a loss's seed):            add_gradient(ctx, value, array)
//
// Whoever is unsure takes compute_gradient: where types agree it costs nothing more than target, else one array.
// Invariant: where input i wants no gradient nothing happens; where types differ all but target convert; what somebody
// else may still read is never written over.
#pragma once

#include <weft/core/function_ref.hpp>
#include <weft/tensor/context.hpp>
#include <weft/tensor/tape_node.hpp>

namespace weft::detail {

/// The backward that runs adds to the gradient of s. Throws where one that ended with an error left a part of it.
WEFT_LINKED void add_to(context& ctx, slot& s) {
  if (s.has_gradient && !s.pinned && !ctx.failed_backwards.empty()) [[unlikely]]
    require_whole_gradient(ctx, s);
  if (s.has_gradient && s.backward != ctx.backward) ++s.turn;
  s.backward = ctx.backward;
}

/// What gradients of type G of a value of type T are given with, on a backend.
struct gradient_work {
  dtype value, gradient;                                                        // T, G
  void (*copy)(context&, const local_array& from, const local_array& to);       // of one type and size
  void (*add)(context&, const local_array& from, const local_array& to, bool);  // to (+)= from, from G to T
};
template <class Backend>
void copy_array(context& ctx, const local_array& from, const local_array& to) {
  Backend::copy_bytes(ctx.queue<Backend>(), from.data, to.data, to.bytes());
}

/// Memory for input i's gradient: empty when none is wanted. What another slot or a reader shares is never written.
WEFT_LINKED gradient_target target(context& ctx, tape_node& node, int i,
                                   void (*copy)(context&, const local_array&, const local_array&)) {
  slot* s = node.input(i).get();
  if (!s) return {};
  add_to(ctx, *s);
  if (!s->gradient || (!s->pinned && !s->gradient.buffer.unique())) {
    require(!s->pinned,
            "a parameter is used outside of its unit, so its gradient has no place: use it inside in_unit(...)");
    local_array own = ctx.make(s->type, s->shape, s->category);
    if (s->has_gradient) copy(ctx, s->gradient, own);
    s->gradient = own;
  }
  return {s->gradient, std::exchange(s->has_gradient, true), false};
}
template <class Backend>
gradient_target target(context& ctx, tape_node& node, int i) {
  return target(ctx, node, i, copy_array<Backend>);
}

/// to (+)= from, element by element, converted from From to To. Throws where one of them is not floating, as of
/// integers, which have no gradient.
template <class Backend, class To, class From>
void add_converted([[maybe_unused]] context& ctx, const local_array& from, const local_array& to,
                   [[maybe_unused]] bool add) {
  if constexpr (!floating<To> || !floating<From>)
    fail("only floating tensors are converted and have gradients, not ", name_of(from.type), " to ", name_of(to.type));
  else
    Backend::convert(ctx.queue<Backend>(), from.elements(), from.as<From>(), to.as<To>(), add);
}
/// slot::add_main for gradients of type G of values of type T.
template <class Backend, class G, class T>
void add_main(context& ctx, const local_array& from, const local_array& to, bool add) {
  require(from.type == dtype_of<T> || from.type == dtype_of<G>, "a gradient of type ", name_of(from.type),
          " meets main gradients of type ", name_of(dtype_of<G>));
  (from.type == dtype_of<G> ? add_converted<Backend, G, G> : add_converted<Backend, G, T>)(ctx, from, to, add);
}
/// From now on the gradient of this value, whose type is T, is kept in type G: a main gradient.
template <class Backend, class G, class T>
void keep_gradient_in(slot& s) {
  s.type = dtype_of<G>;
  s.add_main = nullptr;
  if constexpr (!std::is_same_v<G, T>) s.add_main = add_main<Backend, G, T>;
}

/// Contributes a gradient of type G that is already there to input i, a value of type T; without copying it where that
/// is possible.
WEFT_LINKED void contribute(context& ctx, tape_node& node, int i, const local_array& gradient,
                            const gradient_work& by) {
  slot* s = node.input(i).get();
  if (!s) return;
  if (!s->has_gradient && !s->pinned && s->type == gradient.type) {
    add_to(ctx, *s);
    s->gradient = gradient.reshaped(s->shape);
    s->has_gradient = true;
    return;
  }
  const gradient_target to = target(ctx, node, i, by.copy);
  if (s->add_main) return s->add_main(ctx, gradient, to.to, to.add);
  require(s->type == by.value, "a gradient of type ", name_of(s->type),
          " of a value of another type was not asked for by keep_gradient_in");
  by.add(ctx, gradient, to.to, to.add);
}
template <class Backend, class T, class G = T>
inline constexpr gradient_work gradients_by{dtype_of<T>, dtype_of<G>, copy_array<Backend>,
                                            add_converted<Backend, T, G>};
template <class Backend, class T, class G = T>
void contribute(context& ctx, tape_node& node, int i, const local_array& gradient) {
  contribute(ctx, node, i, gradient, gradients_by<Backend, T, G>);
}

/// Adds a gradient to that of v, where something outside of the tape has one: a loss's seed, or a function's output.
inline void add_gradient(context& ctx, const value& v, const local_array& gradient, const gradient_work& by) {
  tape_node to;
  to.add_input(v);
  contribute(ctx, to, 0, gradient, by);
}
template <class Backend, class T>
void add_gradient(context& ctx, const value& v, const local_array& gradient) {
  add_gradient(ctx, v, gradient, gradients_by<Backend, T>);
}

/// Whether input i is the same value as an earlier input.
inline bool same_as_earlier_input(const tape_node& node, int i) {
  for (int j = 0; j < i; ++j)
    if (node.input(i) && node.input(j) == node.input(i)) return true;
  return false;
}
/// As target, for a kernel that writes several gradients of type T at once: an input met before, or one whose gradient
/// is kept in another type, gets memory of its own, and `add_separate` adds that to the input's gradient when the
/// kernel is done.
template <class Backend, class T>
gradient_target separate_target(context& ctx, tape_node& node, int i) {
  const slot* s = node.input(i).get();
  if (!s || (s->type == dtype_of<T> && !same_as_earlier_input(node, i))) return target<Backend>(ctx, node, i);
  return {ctx.make(dtype_of<T>, s->shape), false, true};
}
template <class Backend, class T, class G = T>
void add_separate(context& ctx, tape_node& node, int i, const gradient_target& written) {
  if (written.separate) contribute<Backend, T, G>(ctx, node, i, written.to);
}

/// A vjp of a value of type T that computes in type G, whose target may be kept in another type: then computes apart
/// and converts.
WEFT_LINKED void compute_gradient(context& ctx, tape_node& node, int i, const gradient_work& by,
                                  function_ref<void(const local_array& to, bool add)> compute) {
  slot* s = node.input(i).get();
  if (!s) return;
  if (s->type == by.gradient) {
    const gradient_target to = target(ctx, node, i, by.copy);
    compute(to.to, to.add);
  } else {
    const local_array own = ctx.make(by.gradient, s->shape);
    compute(own, false);
    contribute(ctx, node, i, own, by);
  }
}
template <class Backend, class T, class G = T, class F>
void compute_gradient(context& ctx, tape_node& node, int i, F&& compute) {
  compute_gradient(ctx, node, i, gradients_by<Backend, T, G>,
                   [&](const local_array& to, bool add) { compute(to.template as<G>(), add); });
}

/// Calls f.operator()<G>(): G is the type in which a kernel is to compute the gradients of these inputs of type T.
/// float where one of them keeps main gradients, those of a 16-bit value in fp32; else T.
template <class T, class F>
void in_gradient_type(const tape_node& node, std::initializer_list<int> inputs, F&& f) {
  if constexpr (sizeof(T) == 2)
    for (const int i : inputs)
      if (node.input(i) && node.input(i)->type == dtype::f32) return f.template operator()<float>();
  f.template operator()<T>();
}

}  // namespace weft::detail
