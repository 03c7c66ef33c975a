// What a function that runs twice (autograd/checkpoint.hpp) remembers of its operators: in the first run each says what
// it cost and what it made; in the second it gets that back where it was kept. Invariant: an operator without a value
// in the second run is one whose outcome nobody there looks at, except operators that are left out themselves.
#pragma once

#include <initializer_list>
#include <vector>

#include <weft/comm/context.hpp>
#include <weft/policy/checkpointing.hpp>

namespace weft {

/// Its functions are virtual so that a program that checkpoints nothing has none of them.
class replay {
 public:
  /// keeps: the policy's answer for one operator. records: where the entries lie; null: on the heap.
  explicit replay(bool (*keeps)(const op_cost&), pool* records = nullptr)
      : keeps_(keeps), entries_(pool_allocator<entry>(records)) {}

  /// First run: an operator made `outcome` from `inputs`.
  virtual void computed(op_cost cost, std::initializer_list<const array*> outcome,
                        std::initializer_list<const value*> inputs) {
    if (!first_run_) return;
    for (const array* a : outcome) cost.kept_bytes += a->bytes();
    entry e;
    e.name = cost.name, e.kept = keeps_(cost);
    for (const value* v : inputs) {
      if (outer_) outer_->looked_at(*v);  // this function runs within another
      if (const int from = maker_of(v->held()); from >= 0) {
        e.from[e.inputs++] = from;
        entries_[static_cast<std::size_t>(from)].used = true;
      }
    }
    for (const array* a : outcome) {
      e.made[e.outcomes] = key(*a);
      e.outcome[e.outcomes++] = e.kept ? *a : array(nullptr, a->type, a->shape);
    }
    entries_.push_back(std::move(e));
    fresh_ = true;
  }
  /// First run: something that doesn't take part (an operator that declares no cost) reads v.
  virtual void looked_at(const value& v) {
    if (!first_run_) return;
    if (outer_) outer_->looked_at(v);
    const int from = maker_of(v.held());
    if (from >= 0) entries_[static_cast<std::size_t>(from)].needed = true;
  }
  /// First run: y is recorded. Unless it was computed just now, or is an input seen in another way, whoever made it
  /// reads its inputs.
  virtual void recorded(const value& y, std::initializer_list<const value*> inputs) {
    if (!first_run_ || (std::exchange(fresh_, false) && entries_.back().made[0] == key(y.data))) return;
    for (const value* v : inputs)
      if (key(v->held()) == key(y.data)) return;
    for (const value* v : inputs) looked_at(*v);
  }

  /// Ends the first run. `each_saved(f)` calls f with every array that the backward of its operators reads; `result` is
  /// the function's outcome, which nobody looks at in the second run. What isn't to be kept is let go of.
  template <class EachSaved>
  void end_first_run(EachSaved&& each_saved, const array& result) {
    each_saved([&](const array& a) {
      if (const int from = maker_of(a); from >= 0) entries_[static_cast<std::size_t>(from)].needed = true;
    });
    const int last = maker_of(result);
    for (int i = static_cast<int>(entries_.size()) - 1; i >= 0; --i) {
      entry& e = entries_[static_cast<std::size_t>(i)];
      e.needed = e.needed || (!e.used && i != last);  // whoever reads it does so unseen
      if (e.needed && !e.kept)
        for (int j = 0; j < e.inputs; ++j) entries_[static_cast<std::size_t>(e.from[j])].needed = true;
      if (!e.needed)
        for (int j = 0; j < e.outcomes; ++j) e.outcome[j] = array(nullptr, e.outcome[j].type, e.outcome[j].shape);
    }
    first_run_ = false;
  }

  /// Second run: whether the operator that comes now needn't run. Gives it its outcome, or arrays without memory.
  virtual bool recalled(std::string_view name, std::initializer_list<array*> outcome) {
    if (first_run_) return false;
    require(next_ < entries_.size() && entries_[next_].name == name, "a checkpointed function ran ", name,
            " as operator ", next_, " when its gradient was due, and ",
            next_ < entries_.size() ? entries_[next_].name : std::string_view("nothing"),
            " at first; it has to do the same both times");
    entry& e = entries_[next_++];
    if (e.needed && !e.kept) return false;
    int i = 0;
    for (array* a : outcome) *a = std::move(e.outcome[i++]);
    return true;
  }

  /// Makes this the one that the rank's operators talk to, for the life of the object.
  class scope {
   public:
    scope(context& ctx, replay& on) : ctx_(ctx), before_(std::exchange(ctx.replay, &on)) { on.outer_ = before_; }
    ~scope() { ctx_.replay = before_; }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    context& ctx_;
    replay* before_;
  };

 private:
  static constexpr int max_inputs = 4, max_outcomes = 3;
  struct entry {
    std::string_view name;
    bool kept = false, used = false, needed = false;
    int inputs = 0, outcomes = 0, from[max_inputs] = {};
    const void* made[max_outcomes] = {};
    array outcome[max_outcomes];
  };
  static const void* key(const array& a) { return a.buffer ? a.buffer.data() : a.data; }
  int maker_of(const array& a) const {
    const void* at = key(a);
    for (int i = static_cast<int>(entries_.size()) - 1; at && i >= 0; --i) {
      const entry& e = entries_[static_cast<std::size_t>(i)];
      for (int j = 0; j < e.outcomes; ++j)
        if (e.made[j] == at) return i;
    }
    return -1;
  }

  bool (*keeps_)(const op_cost&);
  std::vector<entry, pool_allocator<entry>> entries_;
  std::size_t next_ = 0;
  bool first_run_ = true, fresh_ = false;  // fresh: the last operator isn't recorded yet
  replay* outer_ = nullptr;
};

namespace detail {

/// What every operator says round its computation: `if (!recalled(...)) { compute; computed(...); }`.
template <class... Arrays>
bool recalled(context& ctx, std::string_view name, Arrays&... outcome) {
  return ctx.replay && ctx.replay->recalled(name, {&outcome...});
}
template <class... Inputs>
void computed(context& ctx, const op_cost& cost, std::initializer_list<const array*> outcome, const Inputs&... inputs) {
  if (ctx.replay) ctx.replay->computed(cost, outcome, {static_cast<const value*>(&inputs)...});
}

}  // namespace detail
}  // namespace weft
