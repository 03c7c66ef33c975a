// What a function that runs twice (autograd/checkpoint.hpp) remembers of its operators: in the first run each says what
// it cost and what it made; in the second it gets that back where it was kept. Invariant: an operator without a value
// in the second run is one whose output nobody there looks at, except operators that are left out themselves.
#pragma once

#include <weft/policy/checkpointing.hpp>
#include <weft/tensor/same_twice.hpp>

namespace weft {

/// Its functions are virtual so that a program that checkpoints nothing has none of them.
class replay {
 public:
  /// keeps: the policy's answer for one operator. records: where the entries lie; null: on the heap.
  explicit replay(bool (*keeps)(const op_cost&), record_pool* records = nullptr)
      : keeps_(keeps),
        entries_(pool_allocator<entry>(records)),
        from_(pool_allocator<int>(records)),
        outputs_(pool_allocator<made>(records)),
        same_(records) {}

  /// First run: an operator made `output` from `inputs`.
  WEFT_LINKED virtual void record_output(op_cost cost, const local_array& output,
                                         std::initializer_list<local_array*> more,
                                         std::initializer_list<const value*> inputs) {
    if (!first_run()) return;
    cost.kept_bytes += output.bytes();
    for (const local_array* a : more) cost.kept_bytes += a->bytes();
    entry e;
    e.name = cost.name, e.kept = keeps_(cost);
    e.from = from_.size(), e.output = outputs_.size();
    for (const value* v : inputs) {
      if (outer_) outer_->mark_read(*v);  // this function runs within another
      if (const int from = maker_of(v->held()); from >= 0) {
        from_.push_back(from);
        entries_[static_cast<std::size_t>(from)].used = true;
      }
    }
    e.inputs = from_.size() - e.from;
    const auto note = [&](const local_array& a) {
      outputs_.push_back(
          {key(a), static_cast<int>(entries_.size()), e.kept ? a : local_array(nullptr, a.type, a.shape)});
    };
    note(output);
    for (const local_array* a : more) note(*a);
    e.outputs = outputs_.size() - e.output;
    entries_.push_back(e);
    fresh_ = true;
  }
  /// First run: something that doesn't take part (an operator that declares no cost) reads v.
  WEFT_LINKED virtual void mark_read(const value& v) {
    if (!first_run()) return;
    if (outer_) outer_->mark_read(v);
    const int from = maker_of(v.held());
    if (from >= 0) entries_[static_cast<std::size_t>(from)].needed = true;
  }
  /// y is recorded, by an operator of that name. Second run: throws where it has other sizes than in the first, or
  /// comes out of turn. First run: unless y was computed just now, or is an input seen in another way, whoever made it
  /// reads its inputs.
  WEFT_LINKED virtual void recorded(const char* name, value& y, std::initializer_list<const value*> inputs,
                                    std::uintptr_t vjp) {
    each_around([&](detail::same_twice& same) { same.recorded(name, y, {inputs.begin(), inputs.size()}, vjp); });
    y.made_by = ++y.ctx->operators;
    if (!first_run()) return;
    if (std::exchange(fresh_, false) && outputs_[entries_.back().output].at == key(y.data)) return;
    for (const value* v : inputs)
      if (key(v->held()) == key(y.data)) return;
    for (const value* v : inputs) mark_read(*v);
  }

  /// A function of several operators, which are recorded each, made y; its backward reads these. `what` stands for it.
  virtual void called(const char* name, const value& y, std::span<const value* const> reads, std::uintptr_t what) {
    each_around([&](detail::same_twice& same) { same.recorded(name, y, reads, what); });
  }

  /// As same_twice's.
  virtual void given(std::uint64_t numbers) {
    each_around([&](detail::same_twice& same) { same.given(numbers); });
  }
  virtual void created(const local_array& x, std::uint64_t numbers) {
    each_around([&](detail::same_twice& same) { same.created(x, numbers); });
  }
  void note_numbers(const char* name, std::uint64_t numbers) { same_.note_numbers(name, numbers); }
  void check_numbers(std::size_t i, const char* name, std::uint64_t numbers) const {
    same_.check_numbers(i, name, numbers);
  }
  std::uint64_t numbers() const { return same_.numbers(); }
  /// The second run gave `result` back, after so many entries.
  void end_second_run(std::size_t entries, const value& result) {
    same_.end_second_run(entries, next_ == entries_.size());
    same_.returned(result);
  }
  void check_captured() { same_.check_captured(); }
  void set_input(std::uint64_t first, std::uint64_t now) { same_.set_input(first, now); }
  void forget_captured(const storage& memory) { same_.forget_captured(memory); }

  /// Ends the first run. `each_saved(f)` calls f with every array that the backward of its operators reads; `result` is
  /// the function's output, which nobody looks at in the second run. What isn't to be kept is let go of.
  template <class EachSaved>
  void end_first_run(EachSaved&& each_saved, const value& result) {
    each_saved([&](const local_array& a) {
      if (const int from = maker_of(a); from >= 0) entries_[static_cast<std::size_t>(from)].needed = true;
    });
    const int last = maker_of(result.held());
    for (int i = static_cast<int>(entries_.size()) - 1; i >= 0; --i) {
      entry& e = entries_[static_cast<std::size_t>(i)];
      e.needed = e.needed || (!e.used && i != last);  // whoever reads it does so unseen
      if (e.needed && !e.kept)
        for (std::size_t j = 0; j < e.inputs; ++j) entries_[static_cast<std::size_t>(from_[e.from + j])].needed = true;
      if (!e.needed)
        for (std::size_t j = 0; j < e.outputs; ++j) {
          local_array& a = outputs_[e.output + j].kept;
          a = local_array(nullptr, a.type, a.shape);
        }
    }
    same_.returned(result);
    same_.end_first_run();
  }
  /// Second run: whether the operator that comes now needn't run. Gives it its output, or arrays without memory.
  WEFT_LINKED virtual bool reuse_output(std::string_view name, local_array& output,
                                        std::initializer_list<local_array*> more) {
    if (first_run()) return false;
    require(next_ < entries_.size() && entries_[next_].name == name, "a checkpointed function ran ", name,
            " as operator ", next_, " when its gradient was due, and ",
            next_ < entries_.size() ? entries_[next_].name : std::string_view("nothing"), " at first",
            detail::same_twice::same_both_times);
    const entry& e = entries_[next_++];
    if (e.needed && !e.kept) return false;
    std::size_t i = e.output;
    output = std::move(outputs_[i++].kept);
    for (local_array* a : more) *a = std::move(outputs_[i++].kept);
    return true;
  }

  /// Makes this the one that the rank's operators talk to, for the life of the object.
  class scope {
   public:
    scope(context& ctx, replay& on) : ctx_(ctx), before_(std::exchange(ctx.replay, &on)), on_(on) {
      on.outer_ = before_;
      on.same_.begin(ctx.memory.made(), ctx.operators);
    }
    ~scope() {
      ctx_.replay = before_;
      on_.same_.end(ctx_.memory.made());
    }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    context& ctx_;
    replay* before_;
    replay& on_;
  };

 private:
  struct entry {
    std::string_view name;
    bool kept = false, used = false, needed = false;
    std::size_t from = 0, inputs = 0, output = 0, outputs = 0;  // where they begin in the lists below, and how many
  };
  struct made {
    const void* at;
    int by;
    local_array kept;  // without memory, where it isn't
  };
  bool first_run() const { return same_.first_run(); }
  // This function, and those that it runs within: what it does they do.
  template <class F>
  void each_around(F&& f) {
    for (replay* r = this; r; r = r->outer_) f(r->same_);
  }
  static const void* key(const local_array& a) { return a.buffer ? a.buffer.data() : a.data; }
  WEFT_LINKED int maker_of(const local_array& a) const {
    const void* const at = key(a);
    for (std::size_t i = outputs_.size(); at && i-- > 0;)
      if (outputs_[i].at == at) return outputs_[i].by;
    return -1;
  }

  bool (*keeps_)(const op_cost&);
  std::vector<entry, pool_allocator<entry>> entries_;
  std::vector<int, pool_allocator<int>> from_;
  std::vector<made, pool_allocator<made>> outputs_;
  detail::same_twice same_;
  std::size_t next_ = 0;
  bool fresh_ = false;  // the last operator isn't recorded yet
  replay* outer_ = nullptr;
};

}  // namespace weft
