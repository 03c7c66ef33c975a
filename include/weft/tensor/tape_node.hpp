// An entry of the tape: one operator that ran, in the words of its backward. Invariant: it is a function pointer, the
// slots it reads and fills, and what it saved; nothing of a tensor's dimensions or placement is in its type.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include <weft/comm/detail/hash.hpp>
#include <weft/tensor/value.hpp>

namespace weft {

/// Where a vjp writes one input's gradient: overwrite it, or add into it. separate: not the input's own memory (see
/// `add_separate`).
struct gradient_target {
  local_array to;
  bool add = false, separate = false;
  explicit operator bool() const { return static_cast<bool>(to); }
};

/// What a backward pass computes: all gradients; those of activations alone, which the stage before a pipeline's waits
/// for; or what that left over, those of weights.
enum class backward_part : std::uint8_t { all, inputs, weights };

/// Entries that have no output: where something begins and ends that a backward through what lies between is told of.
enum class tape_boundary : std::uint8_t { none, begins, ends };

namespace detail {
[[gnu::noinline]] inline const local_array& read_again(weight_place& place) {
  if (!place.at.data && place.source) place.source->gather_again(place.unit);
  if (!place.at.data) fail_not_gathered(place);
  return place.at;
}
}  // namespace detail

class tape_node {
 public:
  static constexpr int attribute_bytes = 448;

  tape_node() = default;
  // Out of line: an entry owns a dozen things, and the vector around it moves and ends entries in many places.
  [[gnu::noinline]] tape_node(tape_node&&) noexcept = default;
  [[gnu::noinline]] tape_node& operator=(tape_node&&) noexcept = default;
  [[gnu::noinline]] ~tape_node() = default;

  const char* name = "";
  void (*vjp)(context&, tape_node&) = nullptr;

  /// What save() was given. A parameter's value that has moved on is gathered again, which takes a collective: an entry
  /// whose value isn't needed for the gradients that are due doesn't ask for it.
  /// Throws where its numbers were replaced since, by an optimizer or by write_local_share.
  const local_array& saved(int i) const {
    const item& s = item_at(i);
    const std::uint32_t now = s.live ? s.live->version : s.data.buffer.version();
    if (now != s.version) [[unlikely]]
      fail_written(s);
    return s.live ? detail::read_again(*s.live) : s.data;
  }
  /// Takes the saved array out, so that its memory can be reused by whoever holds the only handle to it. Where
  /// the vjp is called for another part later, the array stays.
  local_array take_saved(int i) {
    const bool again = part_ == backward_part::inputs && wants(true);
    local_array out = saved(i);
    item& s = saved_.at(i);
    if (!s.live && !again) s.data = {}, s.version = 0;
    return out;
  }
  [[gnu::noinline]] void save(const value& v) {
    saved_.push_back({v.data, v.slot ? v.slot->live : ref<weight_place>(), v.version()});
  }
  [[gnu::noinline]] void save(const local_array& a) { saved_.push_back({a, {}, a.buffer.version()}); }
  /// What is read for input i's gradient alone: its place stays empty where nobody wants that, now or later. Inputs are
  /// there already.
  void save_for(int i, const value& v) {
    if (ever_wants(i))
      save(v);
    else
      saved_.push_back({});
  }
  int saved_count() const { return saved_.count; }
  /// Of a vjp that has read all that it will, whichever parts are to come.
  void forget_saved() { saved_ = {}; }

  void add_input(const value& v) { inputs_.push_back(v.slot); }
  int input_count() const { return inputs_.count; }
  /// Where input i's gradient goes; null when none is wanted, or not in this part of the backward.
  [[gnu::noinline]] const ref<slot>& input(int i) const {
    static const ref<slot> none;
    if (i < 0 || i >= inputs_.count) [[unlikely]]
      fail(name, " has ", inputs_.count, " inputs, and its backward asks for number ", i);
    const ref<slot>& s = inputs_.at(i);
    const bool left_out = part_ != backward_part::all && s && s->of_weights != (part_ == backward_part::weights);
    return left_out || (s && s->frozen) ? none : s;
  }
  /// Whether input i wants its gradient in any part of a backward.
  bool ever_wants(int i) const {
    const slot* s = inputs_.at(i).get();
    return s && !s->frozen;
  }
  /// Whether input i wants its gradient in the second part of a backward whose first this is.
  bool wants_later(int i) const {
    const slot* s = inputs_.at(i).get();
    return part_ == backward_part::inputs && s && s->of_weights && !s->frozen;
  }
  /// The part of the backward that the vjp is called for, and the tape that calls it.
  backward_part part() const { return part_; }
  class tape* on() const {
    return on_;
  }
  ref<slot> output;
  const local_array& output_gradient() const { return output->gradient; }

  template <class A>
  void set(const A& attributes) {
    static_assert(std::is_trivially_copyable_v<A> && sizeof(A) <= attribute_bytes);
    std::memcpy(attributes_, &attributes, sizeof(A));
  }
  template <class A>
  A get() const {
    std::array<std::byte, sizeof(A)> bytes;
    std::memcpy(bytes.data(), attributes_, sizeof(A));
    return std::bit_cast<A>(bytes);
  }
  std::shared_ptr<void> state;  // for entries that hold a function (recomputation)
  std::uint64_t numbers = 0;    // stands for the program's numbers in it (a factor, a seed): ranks have the same
  bool in_every_part = false;   // entries that no slot tells of (unit boundaries, recomputation): called in both parts
  tape_boundary boundary = tape_boundary::none;

 private:
  friend class tape;
  bool wants(bool weights) const {
    for (int i = 0; i < inputs_.count; ++i)
      if (inputs_.at(i) && inputs_.at(i)->of_weights == weights && !inputs_.at(i)->frozen) return true;
    return in_every_part;
  }
  struct item {
    local_array data;
    ref<weight_place> live;
    std::uint32_t version = 0;
  };
  // The first N here, the others on the heap.
  template <class T, int N>
  struct short_list {
    T first[std::size_t{N}];
    std::vector<T> more;
    int count = 0;

    void push_back(T x) {
      if (count++ < N)
        first[count - 1] = std::move(x);
      else
        more.push_back(std::move(x));
    }
    T& at(int i) { return i < N ? first[i] : more[static_cast<std::size_t>(i - N)]; }
    const T& at(int i) const { return const_cast<short_list*>(this)->at(i); }
  };
  const item& item_at(int i) const {
    if (i < 0 || i >= saved_.count) [[unlikely]]
      fail(name, " saved ", saved_.count, " values, and its backward reads number ", i);
    return saved_.at(i);
  }
  [[noreturn, gnu::cold, gnu::noinline]] void fail_written(const item& s) const {
    fail(name, ": ", s.live ? "parameter " + s.live->name : std::string("a tensor that it read or made"),
         " was updated or written to before its backward, which needs the numbers of before: update weights and write "
         "after backward(loss)");
  }
  short_list<ref<slot>, 4> inputs_;
  short_list<item, 6> saved_;
  backward_part part_ = backward_part::all;
  class tape* on_ = nullptr;
  alignas(8) std::byte attributes_[attribute_bytes];
};

}  // namespace weft
