// Numbers by which inputs are drawn. Invariant: those of one seed are always the same, with every library.
#pragma once

#include <cstddef>
#include <random>

namespace weft_fuzz {

class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) : next_(seed) {}

  /// 0 to n - 1; n at least 1.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next_() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  /// How many changes an input gets: one to four, one the most often.
  std::size_t changes() { return 1 + below(1 + below(4)); }
  template <class List>
  const auto& of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::mt19937_64 next_;
};

}  // namespace weft_fuzz
