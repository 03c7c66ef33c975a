// A permutation of 0 ... n - 1 that is computed and not stored: a Feistel network over philox, walked until it is below
// n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Invariant: a bijection, and a function of
// (n, seed, stream) alone.
#pragma once

#include <bit>

#include <weft/core/error.hpp>
#include <weft/core/random.hpp>

namespace weft::detail {

class random_permutation {
 public:
  random_permutation(std::int64_t n, const philox& key)
      : n_(static_cast<std::uint64_t>(n)), key_(key), half_(static_cast<int>(std::bit_width(n_ - 1) + 1) / 2) {
    require(n >= 1 && half_ <= 31, "a permutation of ", n, " numbers; it has from 1 to 2^62");
  }

  /// Where i goes. Four steps of the network on average, at most.
  std::int64_t operator()(std::int64_t i) const {
    auto at = static_cast<std::uint64_t>(i);
    do at = step(at);
    while (at >= n_);
    return static_cast<std::int64_t>(at);
  }

 private:
  std::uint64_t step(std::uint64_t at) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
    std::uint64_t left = at >> half_, right = at & mask;
    for (std::uint64_t round = 0; round < 8; ++round) {
      const std::uint64_t mixed = left ^ (key_.block(round << 32 | right)[0] & mask);
      left = right, right = mixed;
    }
    return left << half_ | right;
  }

  std::uint64_t n_;
  philox key_;
  int half_;  // bits of each side
};

}  // namespace weft::detail
