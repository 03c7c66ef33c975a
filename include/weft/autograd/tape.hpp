// The tape: what was computed, in order, so that gradients can be carried back through it.
// Invariant: a value's slot says on which recording it was made; what is emptied takes another number, so that nobody
// takes a value of before for one that still leads somewhere.
#pragma once

#include <atomic>
#include <initializer_list>

#include <weft/autograd/replay.hpp>
#include <weft/autograd/tape_node.hpp>
#include <weft/comm/consistency.hpp>

namespace weft {

/// Records on `tape` for the life of the object (or, given null, records nothing).
class recording {
 public:
  recording(context& ctx, tape* to) : ctx_(ctx), outer_(std::exchange(ctx.tape, to)) {}
  ~recording() { ctx_.tape = outer_; }
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;

 private:
  context& ctx_;
  tape* outer_;
};

class tape {
 public:
  /// `records`: where its entries lie; null: on the heap. For a tape that is made anew again and again.
  /// within: the tape of the function around, whose values may be used in this one, since it is carried back later.
  explicit tape(record_pool* records = nullptr, const tape* within = nullptr)
      : nodes_(pool_allocator<tape_node>(records)), entered_(pool_allocator<entered>(records)), within_(within) {}

  tape_node& push() {
    require_whole();
    return nodes_.emplace_back();
  }
  std::size_t size() const { return nodes_.size(); }
  void set_within(const tape* around) { within_ = around; }

  /// Something that a backward is inside of between two of its entries, and has to be told when it ends with an error.
  struct entered {
    void (*abandon)(context& ctx, void* who, int which, backward_part part);
    void* who;
    int which;
    backward_part part;
  };
  void enter(const entered& e) { entered_.push_back(e); }
  void leave() { entered_.pop_back(); }

  /// Carries back every gradient that is pending on the outputs, last entry first, and forgets the entries, also when
  /// one of them throws.
  void backward(context& ctx) {
    require_whole();
    carry_back(ctx);
  }
  /// Calls f(array) with everything that is kept for the backward, but for parameters' values.
  template <class F>
  void each_saved(F&& f) const {
    for (const tape_node& node : nodes_)
      for (int i = 0; i < node.saved_count(); ++i)
        if (!node.saved_.at(i).live) f(node.saved_.at(i).data);
  }
  /// Calls f(entry) for every entry, in the order in which they were recorded.
  template <class F>
  void each_entry(F&& f) const {
    for (const tape_node& node : nodes_) f(node);
  }

  /// The first part of that: gradients of activations. Entries that lead to weights stay, with what they need, for
  /// backward_weights(), which may come any time later; nothing may be recorded in between.
  void backward_inputs(context& ctx) {
    require_whole();
    const recording off(ctx, nullptr);
    emptying when_thrown{ctx, *this};
    checked_backward checked(ctx.check);
    std::size_t kept = nodes_.size();  // kept entries gather at the end
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      tape_node node = std::move(nodes_[i]);
      if (node.output && !node.output->of_weights && !node.output->has_gradient) continue;
      const bool weights = node.wants(true);
      node.part_ = backward_part::inputs;
      node.on_ = this;
      if (node.wants(false)) call_vjp(ctx, node);
      if (weights)
        nodes_[--kept] = std::move(node);
      else
        forget_gradient(node);
    }
    nodes_.erase(nodes_.begin(), nodes_.begin() + static_cast<std::ptrdiff_t>(kept));
    checked.end();
    when_thrown.armed = false;
    half_done_ = true;
  }
  /// The second part: gradients of weights.
  void backward_weights(context& ctx) {
    require(half_done_, "backward_weights() is the second part of a backward: call backward_inputs() first");
    for (tape_node& node : nodes_) node.part_ = backward_part::weights;
    carry_back(ctx);
  }
  /// Whether backward_inputs() has run and backward_weights() has not.
  bool half_done() const { return half_done_; }

  void clear() {
    nodes_.clear();
    half_done_ = false;
    epoch_ = fresh();
  }
  /// Changes whenever the tape is emptied, and no two tapes ever have the same: what was derived for another recording
  /// is stale, also where a new tape lies in the memory of an old one.
  std::uint64_t epoch() const { return epoch_; }
  /// Whether the gradient of a value of that epoch will be carried on once this tape was carried back.
  bool leads_to(std::uint64_t epoch) const {
    for (const tape* t = this; t; t = t->within_)
      if (t->epoch_ == epoch) return true;
    return epoch == 0;
  }

 private:
  struct emptying {
    context& ctx;
    tape& of;
    bool armed = true;
    std::string_view unit = ctx.unit;
    ~emptying() {
      ctx.unit = unit;
      for (; !of.entered_.empty(); of.entered_.pop_back()) {
        const entered& e = of.entered_.back();
        e.abandon(ctx, e.who, e.which, e.part);
      }
      if (armed) of.clear();
    }
  };
  static void call_vjp(context& ctx, tape_node& node) {
    if (ctx.check) [[unlikely]]
      ctx.check->carries_back(node.name, node.output ? node.output->shape : shape(), node.numbers);
    node.vjp(ctx, node);
  }
  static void forget_gradient(tape_node& node) {
    if (!node.output) return;
    node.output->gradient = {};
    node.output->has_gradient = false;
  }
  void carry_back(context& ctx) {
    const recording off(ctx, nullptr);
    const emptying at_the_end{ctx, *this};
    checked_backward checked(ctx.check);
    while (!nodes_.empty()) {
      tape_node node = std::move(nodes_.back());
      nodes_.pop_back();
      if (node.output && !node.output->has_gradient) continue;
      node.on_ = this;
      call_vjp(ctx, node);
      forget_gradient(node);
    }
    checked.end();
  }
  void require_whole() const {
    require(!half_done_,
            "half of a backward in two parts was done on this tape: call backward_weights() before anything else is "
            "recorded or carried back");
  }
  std::vector<tape_node, pool_allocator<tape_node>> nodes_;
  std::vector<entered, pool_allocator<entered>> entered_;
  const tape* within_;
  bool half_done_ = false;
  static std::uint64_t fresh() {
    static std::atomic<std::uint64_t> count{0};
    return ++count;
  }
  std::uint64_t epoch_ = fresh();
};

namespace detail {

inline ref<slot> new_slot(context& ctx, const local_array& of, dtype type) {
  ref<slot> made = slot::make(&ctx.records);
  made->shape = of.shape;
  made->type = type;
  return made;
}

/// Throws where tensors of two launches, or of none, meet in one operator.
[[gnu::noinline]] inline void require_one_context(std::string_view name, std::initializer_list<const value*> inputs) {
  for (const value* v : inputs) v->ctx.get();
  for (const value* v : inputs)
    require(v->ctx == (*inputs.begin())->ctx, name, ": tensors of two launches meet; make both with one context");
}

/// Throws where the gradient of an input would be lost, since nothing carries it on any more.
[[gnu::noinline]] inline void require_recorded(const tape& on, const char* name, const value& input) {
  require(
      !input.slot || on.leads_to(input.slot->epoch), name,
      ": its input is no longer recorded: an earlier backward carried it back or forgot it, or it belongs to another "
      "tape, so its gradient would be lost; compute it again, add the losses up and carry their sum back at once, "
      "or use detach(x) where no gradient is wanted");
}

/// Records an entry when something is recording and an input wants a gradient; gives `out` its slot. Null otherwise.
[[gnu::noinline]] inline tape_node* record(const char* name, value& out, void (*vjp)(context&, tape_node&),
                                           std::initializer_list<const value*> inputs) {
  require_one_context(name, inputs);
  if (out.ctx->replay) out.ctx->replay->recorded(name, out, inputs);
  tape* to = out.ctx->tape;
  bool wanted = false;
  for (const value* input : inputs) wanted = wanted || input->slot;
  if (!to || !wanted) return nullptr;
  for (const value* input : inputs)
    if (input->slot && input->slot->epoch && input->slot->epoch != to->epoch()) require_recorded(*to, name, *input);
  out.slot = new_slot(*out.ctx, out.data, out.data.type);
  out.slot->epoch = to->epoch();
  tape_node& node = to->push();
  node.name = name;
  node.vjp = vjp;
  for (const value* input : inputs) node.add_input(*input);
  node.output = out.slot;
  return &node;
}
template <class... Inputs>
tape_node* record(const char* name, value& out, void (*vjp)(context&, tape_node&), const Inputs&... inputs) {
  return record(name, out, vjp, {static_cast<const value*>(&inputs)...});
}

/// Memory for input i's gradient: empty when none is wanted. What another slot or a reader shares is never written.
template <class Backend>
gradient_target target(context& ctx, tape_node& node, int i) {
  slot* s = node.input(i).get();
  if (!s) return {};
  if (!s->gradient || (!s->pinned && !s->gradient.buffer.unique())) {
    require(!s->pinned,
            "a parameter is used outside of its unit, so its gradient has no place: use it inside in_unit(...)");
    local_array own = ctx.make(s->type, s->shape, s->category);
    if (s->has_gradient) Backend::copy_bytes(ctx.queue<Backend>(), s->gradient.data, own.data, own.bytes());
    s->gradient = own;
  }
  return {s->gradient, std::exchange(s->has_gradient, true), false};
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
template <class Backend, class T, class G = T>
void contribute(context& ctx, tape_node& node, int i, const local_array& gradient) {
  slot* s = node.input(i).get();
  if (!s) return;
  if (!s->has_gradient && !s->pinned && s->type == gradient.type) {
    s->gradient = gradient.reshaped(s->shape);
    s->has_gradient = true;
    return;
  }
  const gradient_target to = target<Backend>(ctx, node, i);
  if (s->add_main) return s->add_main(ctx, gradient, to.to, to.add);
  require(s->type == dtype_of<T>, "a gradient of type ", name_of(s->type),
          " of a value of another type was not asked for by keep_gradient_in");
  add_converted<Backend, T, G>(ctx, gradient, to.to, to.add);
}

/// Adds a gradient to that of v, where something outside of the tape has one: a loss's seed, or a function's output.
template <class Backend, class T>
void add_gradient(context& ctx, const value& v, const local_array& gradient) {
  tape_node to;
  to.add_input(v);
  contribute<Backend, T>(ctx, to, 0, gradient);
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
template <class Backend, class T, class G = T, class F>
void compute_gradient(context& ctx, tape_node& node, int i, F&& compute) {
  slot* s = node.input(i).get();
  if (!s) return;
  if (s->type == dtype_of<G>) {
    const gradient_target to = target<Backend>(ctx, node, i);
    compute(to.to.template as<G>(), to.add);
  } else {
    local_array own = ctx.make(dtype_of<G>, s->shape);
    compute(own.as<G>(), false);
    contribute<Backend, T, G>(ctx, node, i, own);
  }
}

}  // namespace detail
}  // namespace weft
