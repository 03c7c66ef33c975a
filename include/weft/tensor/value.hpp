// A value: the erased tensor. What this rank holds, and the slot its gradient collects in.
// Invariant: operators' code below the placement types works on values alone, so it is compiled once an element type.
#pragma once

#include <concepts>
#include <string>
#include <utility>

#include <weft/core/lifetime.hpp>
#include <weft/core/tags.hpp>
#include <weft/memory/local_array.hpp>
#include <weft/memory/record_pool.hpp>

namespace weft {

class context;

/// Shared ownership by a counter inside the object, whose end() the last owner calls; a rank's thread only.
template <class T>
class ref {
 public:
  ref() = default;
  explicit ref(T* p) : p_(p) {
    if (p_) ++p_->references;
  }
  ref(const ref& other) : ref(other.p_) {}
  ref(ref&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  // Not by value: clang 14 doesn't destroy the argument of `x = {}` in a template.
  ref& operator=(const ref& other) noexcept { return *this = ref(other); }
  ref& operator=(ref&& other) noexcept {
    ref moved(std::move(other));
    std::swap(p_, moved.p_);
    return *this;
  }
  ~ref() {
    if (p_ && --p_->references == 0) p_->end();
  }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  T* get() const { return p_; }
  explicit operator bool() const { return p_ != nullptr; }
  friend bool operator==(const ref&, const ref&) = default;

 private:
  T* p_ = nullptr;
};

/// Who moves parameters' values: a parameter store.
class weight_source {
 public:
  /// Makes the unit's values readable once more: an entry reads one when weights get their gradients, in the second
  /// part of a backward.
  virtual void gather_again(int unit) = 0;

 protected:
  ~weight_source() = default;
};

/// Where a parameter's value is just now. It moves between gather buffers, so who reads it later keeps this, not an
/// address.
struct weight_place {
  int references = 0;
  local_array at;  // without memory: not gathered
  weight_source* source = nullptr;
  int unit = -1;
  std::uint32_t version = 0;  // how often the value was replaced: gathering it doesn't
  bool merged = false;        // an adapter's, which the weight beside it has in it
  std::string name;

  void end() { delete this; }
};

struct value;

namespace detail {
/// v has no memory: throws, unless a checkpointed function runs again, whose unread outputs have none.
void require_running_again(const value& v);
/// Throws in a checkpointed function, where `what` would be done to v in both of its runs.
void require_running_once(const value& v, const char* what);
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_not_gathered(const weight_place& place) {
  if (!place.source)
    fail("parameter ", place.name,
         " has no memory: make a parameter store for its model (a trainer makes one), and keep that as long as the "
         "model "
         "is used");
  fail("parameter ", place.name,
       " is read outside of its unit: read it inside in_unit(...), where its sharding policy has gathered it");
}
}  // namespace detail

/// Where the gradient of one differentiable value collects.
struct slot {
  int references = 0;
  detail::pool_pieces* home = nullptr;  // where its memory came from; null: the heap
  weft::shape shape;
  dtype type = dtype::f32;  // of the gradient: the value's, or that of main gradients (see keep_gradient_in)
  /// Main gradients: to (+)= from, a gradient in the value's type or already in theirs. Null: the gradient has the
  /// value's type.
  void (*add_main)(context& ctx, const local_array& from, const local_array& to, bool add) = nullptr;
  memory category = memory::activations;
  local_array gradient;        // empty until the first contribution, unless its memory is given beforehand
  bool has_gradient = false;   // whether `gradient` holds a contribution (else the next one overwrites)
  bool used_up = false;        // by an update: the next backward begins a new one
  bool pinned = false;         // the gradient's memory is given and never replaced
  bool of_weights = false;     // a parameter's, promoted or not
  bool frozen = false;         // a parameter's that gets no gradient: the slot says only where its value is
  std::uint64_t epoch = 0;     // of the tape on which an entry fills the value (tape::epoch); 0: a leaf
  std::uint32_t turn = 0;      // how often the gradient was used up, or added to by a later backward
  std::uint64_t backward = 0;  // the number of the last one that added to the gradient (context::backward)
  const char* lost_in =
      nullptr;             // the operator that read what its tape no longer records: to be read, not backpropagated
  ref<weight_place> live;  // parameters: where the value is just now

  /// This value as `replicate` on an axis: made once per tape, however many operators use it. A list by `next`, of one
  /// tape, of those that somebody has yet.
  slot *promotions = nullptr, *next = nullptr, *promoted_from = nullptr;
  axis_id promoted_over = nullptr;

  void add_promotion(slot& s, axis_id axis) {
    s.promoted_from = this;
    s.promoted_over = axis;
    s.next = std::exchange(promotions, &s);
  }
  void forget_promotions() {
    for (slot* s = std::exchange(promotions, nullptr); s; s = std::exchange(s->next, nullptr))
      s->promoted_from = nullptr;
  }

  static ref<slot> make(record_pool* home) {
    if (!home) return ref<slot>(new slot);
    ref<slot> made(new (home->allocate(sizeof(slot))) slot);
    made->home = home->pieces();
    return made;
  }
  /// An update has read the gradient, which is no longer there.
  void use_up() {
    ++turn;
    gradient = {};
    has_gradient = false;
    used_up = true;
  }
  /// Keeps the gradient as `other` does, whose value this one is a view or a conversion of.
  void keep_as(const slot& other) {
    type = other.type;
    add_main = other.add_main;
  }
  WEFT_LINKED void end() {
    forget_promotions();
    if (promoted_from) {
      slot** at = &promoted_from->promotions;
      while (*at != this) at = &(*at)->next;
      *at = next;
    }
    if (!home) return delete this;
    detail::pool_pieces* const to = home;
    this->~slot();
    to->release(this, sizeof(slot));
  }
};

/// The context of a value, which may have ended with its launch by the time it is asked for. Every use says so instead
/// of touching it. What was moved from has none.
class context_ref {
 public:
  context_ref() = default;
  context_ref(std::nullptr_t) {}
  // A tensor's copy counts its owners, on its rank's thread.
  context_ref(const context_ref& other) : at_(other.at_), life_(other.life_) {
    if (life_ && !life_.of_this_thread() && life_.alive()) [[unlikely]]
      refuse();
  }
  context_ref& operator=(const context_ref& other) { return *this = context_ref(other); }
  context_ref(context_ref&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), life_(std::exchange(other.life_, {})) {}
  context_ref& operator=(context_ref&& other) noexcept {
    at_ = std::exchange(other.at_, nullptr);
    life_ = std::exchange(other.life_, {});
    return *this;
  }
  context_ref(context* of);  // tensor/context.hpp

  context& operator*() const { return *get(); }
  context* operator->() const { return get(); }
  /// Throws where there is none, where it has ended, and where it is another rank's. what: who asks.
  context* get(const char* what = "a tensor") const {
    if (!life_.alive() || !life_.of_this_thread()) [[unlikely]]
      refuse(what);
    return at_;
  }
  context* if_alive() const { return life_.alive() ? at_ : nullptr; }
  explicit operator bool() const { return at_ != nullptr; }
  friend bool operator==(const context_ref&, const context_ref&) = default;

 private:
  [[noreturn, gnu::cold, gnu::noinline]] void refuse(const char* what = "a tensor") const {
    if (!life_)
      fail(
          "a tensor that was never made is used: make it by an operator or a creator, zeros<...>(ctx, {...}), or a "
          "model's weight by registry.add(...); std::move leaves such a tensor behind");
    if (!life_.alive())
      fail(what,
           " is used after its launch ended, and its memory with it: keep numbers instead, item(x) or on_host(x)");
    fail(what,
         " of another rank is used, or a rank's own on another thread than the rank's or within another launch: a rank "
         "has its own tensors only, and gets numbers of others by a collective");
  }
  context* at_ = nullptr;
  watch life_;
};

namespace detail {
/// Throws where the gradient is what a backward that ended with an error left of it.
void require_whole_gradient(const context& ctx, const slot& s);
/// Throws of a parameter that a store has.
inline void refuse_of_store(const slot* s, const char* sentence) {
  if (s && s->live && s->live->source) [[unlikely]]
    fail(sentence);
}
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_no_gradient(const slot* s) {
  if (s && s->used_up)
    fail(
        "the tensor has no gradient since its last update: an update uses a gradient up, so read it before; "
        "backward(loss) computes the next");
  if (s && s->epoch != 0)
    fail(
        "the tensor has no gradient: it is an operator's output, of which backward(loss) keeps none; add zeros to it "
        "that ask for one, e = zeros<...>(ctx, {...}).requires_grad(), and read e.grad(), or detach(x).requires_grad() "
        "where the gradient goes no further");
  if (s)
    fail(
        "the tensor has no gradient: it asks for one, and no backward(loss) of what was computed from it has run "
        "since");
  fail("the tensor has no gradient: call requires_grad() before it is used, then backward(loss)");
}
template <class X>
constexpr void refuse_taking_out() {
  static_assert(sizeof(X) == 0,
                "weft: a tensor isn't taken out of its type, to be put into another: convert<placement>(x), "
                "cast<T>(x), permute<dim...>(x) or rename<from, to>(x) change what a type says");
}
}  // namespace detail

struct value {
  context_ref ctx;
  shape whole;  // global extents; those of `data` are this rank's, of which the last may be padding (see placed_slice)
  local_array data;
  ref<weft::slot> slot;           // null: no gradient wanted
  bool shares_memory = false;     // with the tensor it was converted from, since its axis has one rank
  std::uint32_t gradient_of = 0;  // of x.grad(): the last bits of the number of x's memory; 0 of all that is made of it
  std::uint32_t turn = 0;         // the same: slot::turn of then
  std::uint64_t made_by = 0;      // the number of the operator that made it while a function ran twice; 0: another

  value() = default;
  value(context_ref of, const shape& global, local_array held, ref<weft::slot> gradient)
      : ctx(std::move(of)), whole(global), data(std::move(held)), slot(std::move(gradient)) {}
  /// Refused, as is the assignment: a tensor without its type would become one of any other type.
  template <class X>
  requires(std::is_base_of_v<value, X> && !std::same_as<X, value>) value(const X&) { detail::refuse_taking_out<X>(); }
  template <class X>
  requires(std::is_base_of_v<value, X> && !std::same_as<X, value>) value& operator=(const X&) {
    return detail::refuse_taking_out<X>(), *this;
  }

  /// What this rank holds. Throws for a tensor that was never made or has outlived its launch, for one of another rank,
  /// for a parameter that is read outside of its unit, and for what a checkpointed function didn't compute again.
  const local_array& held() const {
    ctx.get();
    if (!slot || !slot->live) {
      if (!data) [[unlikely]]
        detail::require_running_again(*this);
      return data;
    }
    if (!slot->live->at.data) detail::fail_not_gathered(*slot->live);
    return slot->live->at;
  }
  /// How often its numbers were replaced by others in place.
  std::uint32_t version() const { return slot && slot->live ? slot->live->version : data.buffer.version(); }
  const shape& sizes() const {
    ctx.get();
    return slot && slot->live ? slot->live->at.shape : data.shape;
  }
};

}  // namespace weft
