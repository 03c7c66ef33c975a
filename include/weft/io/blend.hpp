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

  /// weights: not negative, and not all 0. Shares are kept in steps of 2^-31.
  explicit blend(const std::vector<double>& weights) : before_{0} {
    for (const double w : weights) before_.push_back(before_.back() + w);
    require(before_.back() > 0 && std::isfinite(before_.back()),
            "the parts of a blend have no weight that is a number");
  }

  /// Of sequence n, from 0.
  place at(std::int64_t n) const {
    std::size_t begin = 0, end = before_.size() - 1;
    while (end - begin > 1) {  // of n sequences, floor(n * share + 1/2) are the first half's
      const std::size_t middle = begin + (end - begin) / 2;
      const double share = (before_[middle] - before_[begin]) / (before_[end] - before_[begin]);
      const auto steps = static_cast<std::int64_t>(std::llround(share * 0x1p31));
      const std::int64_t first = times(n, steps);
      const bool is_first = times(n + 1, steps) > first;
      n = is_first ? first : n - first;
      (is_first ? end : begin) = middle;
    }
    return {begin, n};
  }

 private:
  static std::int64_t times(std::int64_t n, std::int64_t steps) {
    const std::int64_t rest = n & 0x7FFFFFFF;
    return (n >> 31) * steps + ((rest * steps + (std::int64_t{1} << 30)) >> 31);
  }

  std::vector<double> before_;  // weights of all parts before, and of all
};

}  // namespace weft::detail
