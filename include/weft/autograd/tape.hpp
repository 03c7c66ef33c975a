// The tape: what was computed, in order, so that gradients can be carried back through it.
// Invariant: nodes are erased. An entry is a function pointer, the slots it reads and fills, and what it saved; nothing
// of a tensor's dimensions or placement is in its type.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <type_traits>

#include <weft/autograd/replay.hpp>

namespace weft {

/// Where a vjp writes one input's gradient: overwrite it, or add into it. apart: not the input's own memory (see
/// `settle`).
struct gradient_target {
  array to;
  bool add = false, apart = false;
  explicit operator bool() const { return static_cast<bool>(to); }
};

/// What a backward pass computes: all gradients; those of activations alone, which the stage before a pipeline's waits
/// for; or what that left over, those of weights.
enum class backward_part : std::uint8_t { all, inputs, weights };

namespace detail {
[[gnu::noinline]] inline const array& read_again(weight_place& place) {
  if (!place.at.data && place.source) place.source->gather_again(place.unit);
  if (!place.at.data) fail_not_at_hand();
  return place.at;
}
}  // namespace detail

class tape_node {
 public:
  static constexpr int max_inputs = 4, max_saved = 6, attribute_bytes = 448;

  tape_node() = default;
  // Out of line: an entry owns a dozen things, and the vector around it moves and ends entries in many places.
  [[gnu::noinline]] tape_node(tape_node&&) noexcept = default;
  [[gnu::noinline]] tape_node& operator=(tape_node&&) noexcept = default;
  [[gnu::noinline]] ~tape_node() = default;

  const char* name = "";
  void (*vjp)(context&, tape_node&) = nullptr;

  /// What save() was given. A parameter's value that has moved on is gathered again, which takes a collective: an entry
  /// whose value isn't needed for the gradients that are due doesn't ask for it.
  const array& saved(int i) const {
    const item& s = saved_[i];
    return s.live ? detail::read_again(*s.live) : s.data;
  }
  /// Takes the saved array out, so that its memory can be reused by whoever holds the only handle to it. Where the vjp
  /// is called for another part later, the array stays.
  array take_saved(int i) {
    const bool again = part_ == backward_part::inputs && wants(true);
    return saved_[i].live || again ? saved(i) : std::move(saved_[i].data);
  }
  [[gnu::noinline]] void save(const value& v) {
    saved_[saved_count_++] = {v.data, v.slot ? v.slot->live : ref<weight_place>()};
  }
  [[gnu::noinline]] void save(const array& a) { saved_[saved_count_++] = {a, {}}; }
  int saved_count() const { return saved_count_; }

  void add_input(const value& v) { inputs_[input_count_++] = v.slot; }
  /// Where input i's gradient goes; null when none is wanted, or not in this part of the backward.
  const ref<slot>& input(int i) const {
    static const ref<slot> none;
    const bool left_out =
        part_ != backward_part::all && inputs_[i] && inputs_[i]->of_weights != (part_ == backward_part::weights);
    return left_out ? none : inputs_[i];
  }
  /// The part of the backward that the vjp is called for.
  backward_part part() const { return part_; }
  ref<slot> output;
  const array& output_gradient() const { return output->gradient; }

  template <class A>
  void set(const A& attributes) {
    static_assert(std::is_trivially_copyable_v<A> && sizeof(A) <= attribute_bytes);
    std::memcpy(attributes_, &attributes, sizeof(A));
  }
  template <class A>
  A get() const {
    A out;
    std::memcpy(&out, attributes_, sizeof(A));
    return out;
  }
  std::shared_ptr<void> state;  // for entries that hold a function (recomputation)
  bool in_every_part = false;   // entries that no slot tells of (unit boundaries, recomputation): called in both parts

 private:
  friend class tape;
  bool wants(bool weights) const {
    for (const ref<slot>& i : inputs_)
      if (i && i->of_weights == weights) return true;
    return in_every_part;
  }
  struct item {
    array data;
    ref<weight_place> live;
  };
  ref<slot> inputs_[max_inputs];
  item saved_[max_saved];
  std::int8_t input_count_ = 0, saved_count_ = 0;
  backward_part part_ = backward_part::all;
  alignas(8) std::byte attributes_[attribute_bytes];
};

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
  explicit tape(pool* records = nullptr) : nodes_(pool_allocator<tape_node>(records)) {}

  tape_node& push() { return nodes_.emplace_back(); }
  std::size_t size() const { return nodes_.size(); }

  /// Carries back every gradient that is pending on the outputs, last entry first, and forgets the entries, also when
  /// one of them throws.
  void backward(context& ctx) {
    const recording off(ctx, nullptr);
    const emptying at_the_end{*this};
    while (!nodes_.empty()) {
      tape_node node = std::move(nodes_.back());
      nodes_.pop_back();
      run(ctx, node);
    }
  }
  /// Calls f(array) with everything that is kept for the backward, but for parameters' values.
  template <class F>
  void each_saved(F&& f) const {
    for (const tape_node& node : nodes_)
      for (int i = 0; i < node.saved_count(); ++i)
        if (!node.saved_[i].live) f(node.saved_[i].data);
  }

  /// The first part of that: gradients of activations. Entries that lead to weights stay, with what they need, for
  /// backward_weights(), which may come any time later; nothing may be recorded in between.
  void backward_inputs(context& ctx) {
    const recording off(ctx, nullptr);
    emptying when_thrown{*this};
    std::size_t kept = nodes_.size();  // kept entries gather at the end
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      tape_node node = std::move(nodes_[i]);
      if (node.output && !node.output->of_weights && !node.output->has_gradient) continue;
      const bool weights = node.wants(true);
      node.part_ = backward_part::inputs;
      if (node.wants(false)) node.vjp(ctx, node);
      if (weights)
        nodes_[--kept] = std::move(node);
      else
        forget_gradient(node);
    }
    nodes_.erase(nodes_.begin(), nodes_.begin() + static_cast<std::ptrdiff_t>(kept));
    when_thrown.armed = false;
  }
  /// The second part: gradients of weights.
  void backward_weights(context& ctx) {
    for (tape_node& node : nodes_) node.part_ = backward_part::weights;
    backward(ctx);
  }

  void clear() {
    nodes_.clear();
    epoch_ = fresh();
  }
  /// Changes whenever the tape is emptied, and no two tapes ever have the same: what was derived for another recording
  /// is stale, also where a new tape lies in the memory of an old one.
  std::uint64_t epoch() const { return epoch_; }

 private:
  struct emptying {
    tape& of;
    bool armed = true;
    ~emptying() {
      if (armed) of.clear();
    }
  };
  static void forget_gradient(tape_node& node) {
    if (!node.output) return;
    node.output->gradient = {};
    node.output->has_gradient = false;
  }
  static void run(context& ctx, tape_node& node) {
    if (node.output && !node.output->has_gradient) return;
    node.vjp(ctx, node);
    forget_gradient(node);
  }
  std::vector<tape_node, pool_allocator<tape_node>> nodes_;
  static std::uint64_t fresh() {
    static std::atomic<std::uint64_t> count{0};
    return ++count;
  }
  std::uint64_t epoch_ = fresh();
};

namespace detail {

inline ref<slot> new_slot(context& ctx, const array& of, dtype type) {
  ref<slot> made = slot::make(&ctx.records);
  made->shape = of.shape;
  made->type = type;
  return made;
}

/// Records an entry when something is recording and an input wants a gradient; gives `out` its slot. Null otherwise.
[[gnu::noinline]] inline tape_node* record(const char* name, value& out, void (*vjp)(context&, tape_node&),
                                           std::initializer_list<const value*> inputs) {
  if (out.ctx->replay) out.ctx->replay->recorded(out, inputs);
  tape* to = out.ctx->tape;
  bool wanted = false;
  for (const value* input : inputs) wanted = wanted || input->slot;
  if (!to || !wanted) return nullptr;
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
    array own = ctx.make(s->type, s->shape, s->category);
    if (s->has_gradient) Backend::copy_bytes(ctx.queue<Backend>(), s->gradient.data, own.data, own.bytes());
    s->gradient = own;
  }
  return {s->gradient, std::exchange(s->has_gradient, true), false};
}

/// to (+)= from, element by element, converted from From to To. Throws where one of them is not floating.
template <class Backend, class To, class From>
void add_converted([[maybe_unused]] context& ctx, const array& from, const array& to, [[maybe_unused]] bool add) {
  if constexpr (!floating<To> || !floating<From>)
    fail("only floating tensors are converted and have gradients, not ", name_of(from.type), " to ", name_of(to.type));
  else
    Backend::convert(ctx.queue<Backend>(), from.elements(), from.as<From>(), to.as<To>(), add);
}
/// slot::add_main for gradients of type G of values of type T.
template <class Backend, class G, class T>
void add_main(context& ctx, const array& from, const array& to, bool add) {
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
void contribute(context& ctx, tape_node& node, int i, const array& gradient) {
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

/// Whether input i is the same value as an earlier input.
inline bool met_before(const tape_node& node, int i) {
  for (int j = 0; j < i; ++j)
    if (node.input(i) && node.input(j) == node.input(i)) return true;
  return false;
}
/// As target, for a kernel that writes several gradients of type T at once: an input met before, or one whose gradient
/// is kept in another type, gets memory of its own, and `settle` adds that to the input's gradient when the kernel is
/// done.
template <class Backend, class T>
gradient_target target_apart(context& ctx, tape_node& node, int i) {
  const slot* s = node.input(i).get();
  if (!s || (s->type == dtype_of<T> && !met_before(node, i))) return target<Backend>(ctx, node, i);
  return {ctx.make(dtype_of<T>, s->shape), false, true};
}
template <class Backend, class T, class G = T>
void settle(context& ctx, tape_node& node, int i, const gradient_target& written) {
  if (written.apart) contribute<Backend, T, G>(ctx, node, i, written.to);
}

/// A vjp of a value of type T that computes in type G, whose target may be kept in another type: then computes apart
/// and converts.
template <class Backend, class T, class G = T, class F>
void through(context& ctx, tape_node& node, int i, F&& compute) {
  slot* s = node.input(i).get();
  if (!s) return;
  if (s->type == dtype_of<G>) {
    const gradient_target to = target<Backend>(ctx, node, i);
    compute(to.to.template as<G>(), to.add);
  } else {
    array own = ctx.make(dtype_of<G>, s->shape);
    compute(own.as<G>(), false);
    contribute<Backend, T, G>(ctx, node, i, own);
  }
}

}  // namespace detail
}  // namespace weft
