// Which of several parts a sequence is taken from, by shares: a function of the sequence's number alone. Invariant: of
// the first n sequences, each part has its share of n to within half a sequence for each level of a tree over the
// parts, and numbers its own without a gap.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <weft/core/error.hpp>

namespace weft::detail {

class blend {
 public:
  struct place {
    std::size_t part;
    std::int64_t number;  // among the part's own
  };

  /// weights: not negative, and not all 0. Shares are kept in steps of 2^-31, one for each level of the tree. Throws
  /// weft::failure where a weight is so small beside others that its part would never be drawn.
  explicit blend(const std::vector<double>& weights) : before_{0} {
    for (const double w : weights) before_.push_back(before_.back() + w);
    require(before_.back() > 0 && std::isfinite(before_.back()),
            "the parts of a blend have no weight that is a number");
    check(weights, 0, weights.size());
  }

  /// Of sequence n, from 0.
  place at(std::int64_t n) const {
    std::size_t begin = 0, end = before_.size() - 1;
    while (end - begin > 1) {  // of n sequences, floor(n * share + 1/2) are the first half's
      const std::size_t middle = begin + (end - begin) / 2;
      const std::int64_t steps = steps_of(begin, middle, end), first = times(n, steps);
      const bool is_first = times(n + 1, steps) > first;
      n = is_first ? first : n - first;
      (is_first ? end : begin) = middle;
    }
    return {begin, n};
  }

 private:
  // The share that the parts before `middle` have of begin ... end - 1, in steps of 2^-31.
  std::int64_t steps_of(std::size_t begin, std::size_t middle, std::size_t end) const {
    const double share = (before_[middle] - before_[begin]) / (before_[end] - before_[begin]);
    return static_cast<std::int64_t>(std::llround(share * 0x1p31));
  }
  void check(const std::vector<double>& weights, std::size_t begin, std::size_t end) const {
    if (end - begin < 2) return;
    const std::size_t middle = begin + (end - begin) / 2;
    // Of each half, its first weight that is one; `end` where it has none.
    const auto weight_in = [&](std::size_t i, std::size_t behind) {
      while (i < behind && weights[i] == 0) ++i;
      return i < behind ? i : end;
    };
    const std::size_t left = weight_in(begin, middle), right = weight_in(middle, end);
    if (left < end && right < end) {
      const std::int64_t steps = steps_of(begin, middle, end);
      const std::size_t never = steps == 0 ? left : right;
      require(steps > 0 && steps < std::int64_t{1} << 31, "a part of a blend has the weight ", weights[never], ", of ",
              before_.back(),
              " in all: it would never be drawn, for shares are kept in steps of 2^-31; leave it out, or give it more");
    }
    if (left < end) check(weights, begin, middle);
    if (right < end) check(weights, middle, end);
  }
  static std::int64_t times(std::int64_t n, std::int64_t steps) {
    const std::int64_t rest = n & 0x7FFFFFFF;
    return (n >> 31) * steps + ((rest * steps + (std::int64_t{1} << 30)) >> 31);
  }

  std::vector<double> before_;  // weights of all parts before, and of all
};

}  // namespace weft::detail
