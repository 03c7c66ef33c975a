// Whether a number is one. Invariant: told from its bits, so that it holds too where a compiler was allowed to assume
// that there is no NaN and no infinity.
#pragma once

#include <weft/core/requirements.hpp>

#include <bit>
#include <cstdint>

namespace weft::detail {

constexpr std::uint64_t magnitude_of(double x) { return std::bit_cast<std::uint64_t>(x) & 0x7fffffffffffffffu; }

/// Neither infinite nor NaN.
constexpr bool is_finite(double x) { return magnitude_of(x) < 0x7ff0000000000000u; }
constexpr bool is_nan(double x) { return magnitude_of(x) > 0x7ff0000000000000u; }

}  // namespace weft::detail
