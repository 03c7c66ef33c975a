// By what the moments of an update's tensors are rounded, so that one kernel updates several. Invariant: held by value,
// so that a kernel which runs behind its host has them.
#pragma once

#include <weft/backend/stochastic_rounding.hpp>

namespace weft {

/// Elements of up to `most` tensors, those of one behind those of another, from element 0 on. Between them may be
/// zeros, which stay so.
class rounding_ranges {
 public:
  static constexpr int most = 32;

  constexpr rounding_ranges() = default;
  /// All are of one tensor.
  constexpr rounding_ranges(const stochastic_rounding& of) { add(0, of); }
  /// Those from `begin` on, behind what is there already, are of another. The first begin at 0. Not where it is full().
  constexpr void add(std::int64_t begin, const stochastic_rounding& of) {
    begins_[at(count_)] = begin, of_[at(count_)] = of.behind(-begin), ++count_;
  }
  constexpr bool full() const { return count_ == most; }
  /// Whether no tensor begins within a pack of n elements.
  constexpr bool begin_at_multiples_of(int n) const {
    for (int r = 0; r < count_; ++r)
      if (begins_[at(r)] % n != 0) return false;
    return true;
  }

  /// The same at step number `step`.
  constexpr rounding_ranges of_step(std::int64_t step) const {
    rounding_ranges out;
    for (int r = 0; r < count_; ++r) out.add(begins_[at(r)], behind(begins_[at(r)], r).of_step(step));
    return out;
  }
  /// The same of n elements, the first of which is element `from` of these.
  constexpr rounding_ranges part(std::int64_t from, std::int64_t n) const {
    rounding_ranges out;
    for (int r = 0; r < count_ && begins_[at(r)] < from + n; ++r) {
      const std::int64_t begin = begins_[at(r)] > from ? begins_[at(r)] : from;
      if (begin < end(r, from + n)) out.add(begin - from, behind(begin, r));
    }
    return out;
  }
  /// For kernels: that of element i's tensor, from its element 0 - (where that begins here) on. Asked in ascending
  /// order; `range` is 0 at first, and what it was left at.
  constexpr const stochastic_rounding& of(std::int64_t i, int& range) const {
    while (range + 1 < count_ && begins_[at(range + 1)] <= i) ++range;
    return of_[at(range)];
  }
  /// f(first, last, that of elements first ... last - 1, of which `first` is its first) for the tensors among elements
  /// begin ... end - 1, in order.
  template <class F>
  constexpr void runs(std::int64_t begin, std::int64_t end, F&& f) const {
    for (int range = 0; begin < end;) {
      of(begin, range);
      const std::int64_t until = this->end(range, end);
      f(begin, until, behind(begin, range));
      begin = until;
    }
  }

 private:
  static constexpr std::size_t at(int r) { return static_cast<std::size_t>(r); }
  // Where range r ends, among elements that end at `last`.
  constexpr std::int64_t end(int r, std::int64_t last) const {
    return r + 1 < count_ && begins_[at(r + 1)] < last ? begins_[at(r + 1)] : last;
  }
  constexpr stochastic_rounding behind(std::int64_t i, int r) const { return of_[at(r)].behind(i); }

  int count_ = 0;
  std::array<std::int64_t, most> begins_{};
  std::array<stochastic_rounding, most> of_{};  // each as of element 0
};

}  // namespace weft
