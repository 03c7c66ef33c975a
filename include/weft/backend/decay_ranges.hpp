// Which elements of an update weight decay applies to, so that one kernel updates tensors that decay beside such that
// don't. Invariant: held by value, so that a kernel which runs behind its host has them.
#pragma once

#include <weft/core/requirements.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft {

/// Up to `most` ranges of elements, in ascending order and none within another.
class decay_ranges {
 public:
  static constexpr int most = 64;

  /// None decays.
  constexpr decay_ranges() = default;
  /// All of n elements do.
  static constexpr decay_ranges all(std::int64_t n) {
    decay_ranges out;
    out.add(0, n);
    return out;
  }
  /// Elements begin ... end - 1 do, too, which lie behind those that are there already. Not where it is full().
  constexpr void add(std::int64_t begin, std::int64_t end) {
    if (begin < end) begins_[at(count_)] = begin, ends_[at(count_)] = end, ++count_;
  }
  constexpr bool full() const { return count_ == most; }

  /// The same of n elements, the first of which is element `from` of these.
  constexpr decay_ranges part(std::int64_t from, std::int64_t n) const {
    decay_ranges out;
    for (int r = 0; r < count_; ++r) {
      const std::int64_t begin = begins_[at(r)] - from, end = ends_[at(r)] - from;
      out.add(begin < 0 ? 0 : begin, end < n ? end : n);
    }
    return out;
  }
  /// For kernels: whether element i does. Asked in ascending order; `range` is 0 at first, and what it was left at.
  constexpr bool has(std::int64_t i, int& range) const {
    while (range < count_ && ends_[at(range)] <= i) ++range;
    return range < count_ && begins_[at(range)] <= i;
  }
  /// f(begin, end, whether they decay) for the runs of elements begin ... end - 1, in order.
  template <class F>
  constexpr void runs(std::int64_t begin, std::int64_t end, F&& f) const {
    for (int range = 0; begin < end;) {
      const bool decays = has(begin, range);
      std::int64_t until = range == count_ ? end : decays ? ends_[at(range)] : begins_[at(range)];
      if (until > end) until = end;
      f(begin, until, decays);
      begin = until;
    }
  }

 private:
  static constexpr std::size_t at(int r) { return static_cast<std::size_t>(r); }
  int count_ = 0;
  std::array<std::int64_t, most> begins_{}, ends_{};
};

}  // namespace weft
