// What a function that runs twice has to do alike both times: operators, their sizes, what they read, and the program's
// numbers in them. Invariant: the first run is noted, the second compared, and nothing else is done to either.
#pragma once

#include <span>
#include <vector>

#include <weft/comm/detail/hash.hpp>
#include <weft/tensor/context.hpp>

namespace weft::detail {

class same_twice {
 public:
  explicit same_twice(record_pool* records)
      : sizes_(pool_allocator<step>(records)),
        numbers_(pool_allocator<step>(records)),
        reads_(pool_allocator<reading>(records)),
        created_(pool_allocator<creation>(records)),
        captured_(pool_allocator<captured>(records)) {}

  static constexpr const char* same_both_times =
      "; it has to do the same both times, so what it reads or counts outside of tensors must not change";

  bool first_run() const { return first_run_; }
  void end_first_run() { first_run_ = false; }
  /// A run begins, or the first ends, when so many allocations were made and so many operators ran.
  void begin(std::uint64_t made, std::uint64_t operators) {
    (first_run_ ? began_ : began_again_) = made;
    operators_before_ = operators;
    given_ = 0;
  }
  void end(std::uint64_t made) {
    if (first_run_) ended_ = made;
  }

  /// An operator is recorded. Second run: throws where it has other sizes than in the first, read something else, or
  /// comes out of turn.
  /// `vjp` stands for the operator's types.
  WEFT_LINKED void recorded(const char* name, const value& y, std::span<const value* const> inputs,
                            std::uintptr_t vjp) {
    std::uint64_t sizes = hash_of_step(name, y.whole, 0);
    for (const value* v : inputs) sizes = hash_of_step(name, v->whole, sizes);
    reading read{0, 0, mix(std::exchange(given_, 0) ^ vjp)};
    for (const value* v : inputs) {
      read.from = read.from * 0x9e3779b97f4a7c15u + maker(*v);
      read.created = read.created * 0x9e3779b97f4a7c15u + numbers_created(*v);
    }
    if (!first_run_) {
      compare(sizes_, next_sizes_++, name, sizes, " of other sizes");
      compare_reading(reads_[next_sizes_ - 1], read, name);
      return;
    }
    sizes_.push_back({name, sizes});
    reads_.push_back(read);
    for (const value* v : inputs) note_captured(*v);
  }
  /// The function gives y back. Second run: throws where it was another tensor at first.
  WEFT_LINKED void returned(const value& y) {
    if (first_run_)
      returned_ = maker(y);
    else
      require(returned_ == maker(y),
              "a checkpointed function gave back another tensor when its gradient was due than at first",
              same_both_times);
  }
  /// The operator that is recorded next computes with these numbers, or along these dimensions.
  void given(std::uint64_t numbers) { given_ = mix(given_ ^ numbers) + 1; }
  /// A creator made x; `numbers` stands for those that it wrote.
  void created(const local_array& x, std::uint64_t numbers) { created_.push_back({x.buffer.made(), numbers}); }
  /// First run: the program's numbers in the next entry that it recorded (tape_node::numbers).
  void note_numbers(const char* name, std::uint64_t numbers) { numbers_.push_back({name, numbers}); }
  /// Second run: those of entry i. Throws where the first run recorded others.
  void check_numbers(std::size_t i, const char* name, std::uint64_t numbers) const {
    compare(numbers_, i, name, numbers, " with other numbers, dimensions or types");
  }
  /// The tensor of allocation `first`, which the function is given, is that of allocation `now` in the second run.
  void set_input(std::uint64_t first, std::uint64_t now) { input_first_ = first, input_now_ = now; }
  /// Somebody else sees to it that the memory's numbers are the same in both runs; it isn't held any more.
  void forget_captured(const storage& memory) {
    std::erase_if(captured_, [&](const captured& c) { return !c.live && c.memory.data() == memory.data(); });
  }
  /// Stands for all of these.
  WEFT_LINKED std::uint64_t numbers() const {
    std::uint64_t all = 0;
    for (const step& s : numbers_) all = mix(all ^ hash_text(s.name) ^ s.hash);
    return all;
  }
  /// Second run: it is over, after `entries`. Throws where it did less than the first; `all`: whether nothing else is
  /// missing.
  WEFT_LINKED void end_second_run(std::size_t entries, bool all) const {
    require(all && next_sizes_ == sizes_.size() && entries == numbers_.size(), "a checkpointed function ran ",
            next_sizes_, " operators when its gradient was due, and ", sizes_.size(), " at first", same_both_times);
  }
  /// Before the second run. Throws where a tensor that the function reads beside its argument, a leaf or another, has
  /// had other numbers since the first.
  WEFT_LINKED void check_captured() {
    for (const captured& c : captured_)
      if ((c.live ? c.live->version : c.memory.version()) != c.version) [[unlikely]]
        fail("checkpoint: ", c.live ? "parameter " + c.live->name : std::string("a tensor that its function reads"),
             " was updated or written to before its backward, which runs the function again: update weights and write "
             "after backward(loss)");
    captured_.clear();
  }

 private:
  struct step {
    const char* name;
    std::uint64_t hash;
  };
  using steps = std::vector<step, pool_allocator<step>>;
  // What an operator read: by whom its tensors were made, numbers of creators in them, and numbers of its own.
  struct reading {
    std::uint64_t from, created, given;
  };
  struct creation {
    std::uint64_t made, numbers;
  };
  WEFT_LINKED void compare_reading(const reading& first, const reading& now, const char* name) const {
    if (first.from == now.from && first.created == now.created && first.given == now.given) [[likely]]
      return;
    if (first.from == now.from && first.created == now.created)
      fail("a checkpointed function ran ", name, " as operator ", next_sizes_ - 1, " when its gradient was due, and ",
           name, " with other numbers, dimensions or types at first", same_both_times);
    fail("checkpoint: ", name, ", operator ", next_sizes_ - 1, " of its function, reads ",
         first.from != now.from
             ? "another tensor when the gradient is due than at first: capture it by value, [=] in place of [&]"
             : "a tensor that its function makes of other numbers when the gradient is due than at first",
         same_both_times);
  }
  WEFT_LINKED static void compare(const steps& first, std::size_t i, const char* name, std::uint64_t hash,
                                  const char* differing) {
    if (i < first.size() && first[i].hash == hash && std::string_view(first[i].name) == name) [[likely]]
      return;
    const char* const before = i < first.size() ? first[i].name : "nothing";
    fail("a checkpointed function ran ", name, " as operator ", i, " when its gradient was due, and ", before,
         std::string_view(before) == name ? differing : "", " at first", same_both_times);
  }
  // A tensor or parameter from outside that the function reads.
  struct captured {
    ref<weight_place> live;
    storage memory;
    std::uint32_t version;
  };
  WEFT_LINKED void note_captured(const value& v) {
    if (outside(v) == 0) return;
    const ref<weight_place> live = v.slot ? v.slot->live : ref<weight_place>();
    for (const captured& c : captured_)
      if (c.live == live && c.memory.data() == v.data.buffer.data()) return;
    captured_.push_back({live, v.data.buffer, v.version()});
  }
  // Names the operator of this run that made a tensor, or a tensor that wasn't made in it, alike in both.
  WEFT_LINKED std::uint64_t maker(const value& v) const {
    return v.made_by > operators_before_ ? 2 * (v.made_by - operators_before_) + 1 : 2 * outside(v);
  }
  // Names a tensor that wasn't made in this run, alike in both; 0: it was.
  WEFT_LINKED std::uint64_t outside(const value& v) const {
    if (v.slot && v.slot->live) return reinterpret_cast<std::uintptr_t>(v.slot->live.get());
    const std::uint64_t number = v.data.buffer.made();
    if (!first_run_ && number == input_now_) return input_first_;
    return number <= began_ || (!first_run_ && number > ended_ && number <= began_again_) ? number : 0;
  }
  // Stands for what a creator wrote into a tensor, in either run; 0: an operator made it.
  WEFT_LINKED std::uint64_t numbers_created(const value& v) const {
    for (std::size_t i = created_.size(); i-- > 0;)
      if (created_[i].made == v.data.buffer.made()) return created_[i].numbers;
    return 0;
  }

  steps sizes_, numbers_;
  std::vector<reading, pool_allocator<reading>> reads_;  // by each of sizes_
  std::vector<creation, pool_allocator<creation>> created_;
  std::vector<captured, pool_allocator<captured>> captured_;
  std::size_t next_sizes_ = 0;
  std::uint64_t given_ = 0;
  std::uint64_t returned_ = 0;                             // by whom what the first run gave back was made
  std::uint64_t began_ = 0, ended_ = 0, began_again_ = 0;  // the runs, in allocations
  std::uint64_t operators_before_ = 0;                     // the run that is on
  std::uint64_t input_first_ = 0, input_now_ = 0;          // what the function is given, in allocations
  bool first_run_ = true;
};

}  // namespace weft::detail
