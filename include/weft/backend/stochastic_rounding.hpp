// Rounding to bf16 by chance, so that what is added to a number counts even where it is less than half of what bf16
// can tell. Source: Gupta et al., "Deep learning with limited numerical precision" (ICML 2015); Zamirai et al.,
// "Revisiting BFloat16 training" (2020). Invariant: a pure function of (seed, parameter, step, global index), so that
// it is the same whoever stores the element, and on every backend.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/core/random.hpp>

namespace weft {

/// x as the bf16 next to it towards zero, or as the one after that: this with the probability by which x lies nearer to
/// it, so that the mean is x. `chance` is a random number of 16 bits. What bf16 has exactly stays, 0, infinities and
/// NaN too; beyond the largest bf16 it may become infinite.
constexpr bf16 stochastically_rounded(float x, std::uint32_t chance) {
  const std::uint32_t bits = detail::bits_of(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return bf16(x);
  return bf16::from_bits(static_cast<std::uint16_t>((bits + (chance & 0xffffu)) >> 16));
}

/// By what an optimizer's two moments are rounded to bf16: those of elements `first`, first + 1, ... of a slice.
struct stochastic_rounding {
  placed_slice at = {};
  std::int64_t first = 0;
  philox numbers = {};

  /// The same at step number `step`.
  constexpr stochastic_rounding of_step(std::int64_t step) const {
    stochastic_rounding out = *this;
    for (int byte = 0; byte < 8; ++byte)
      out.numbers.stream =
          (out.numbers.stream ^ (static_cast<std::uint64_t>(step) >> (8 * byte) & 0xff)) * 0x100000001b3u;
    return out;
  }
  /// The same of the elements from number `from` on.
  constexpr stochastic_rounding behind(std::int64_t from) const { return {at, first + from, numbers}; }
};

namespace detail {
/// Random words by global index, four of which are made at once: a word's lower half is the first moment's, its upper
/// half the second's. Padding's are 0.
struct rounding_words {
  philox numbers;
  std::uint64_t counter = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> words = {};

  constexpr std::uint32_t word(std::int64_t global) {
    if (global < 0) return 0;
    const auto place = static_cast<std::uint64_t>(global);
    if (place / 4 != counter) words = numbers.block(counter = place / 4);
    return place % 4 == 0 ? words[0] : place % 4 == 1 ? words[1] : place % 4 == 2 ? words[2] : words[3];
  }
};
}  // namespace detail

}  // namespace weft
