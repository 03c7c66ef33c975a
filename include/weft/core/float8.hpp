// Floating numbers of 8 bits (Micikevicius et al. 2022), as products take them: how a float becomes one under a scale,
// and back. Invariant: a scale is a power of two, so it changes no digit; rounding is to nearest, ties to even.
#pragma once

#include <weft/core/anywhere.hpp>
#include <weft/core/half_bits.hpp>

namespace weft {

/// e4m3: 4 bits of exponent and 3 of mantissa, up to 448. e5m2: 5 and 2, up to 57344. Neither has infinities here: what
/// isn't finite becomes NaN.
enum class float8_form : std::uint8_t { e4m3, e5m2 };

namespace detail {

WEFT_ANYWHERE constexpr int float8_mantissa(float8_form f) { return f == float8_form::e4m3 ? 3 : 2; }
// Of the least normal number, and of the largest, which is 1.75 times that power of two.
WEFT_ANYWHERE constexpr int float8_least_exponent(float8_form f) { return f == float8_form::e4m3 ? -6 : -14; }
WEFT_ANYWHERE constexpr int float8_largest_exponent(float8_form f) { return f == float8_form::e4m3 ? 8 : 15; }
/// 2^n for a normal float.
WEFT_ANYWHERE constexpr float power_of_two(int n) { return floats_of(static_cast<std::uint32_t>(n + 127) << 23); }

/// What numbers of at most this magnitude are multiplied by: the largest power of two with which they fit. 1 where it
/// is 0 or not finite.
WEFT_ANYWHERE constexpr float float8_scale(float8_form form, float largest) {
  const std::uint32_t bits = bits_of(largest) & 0x7fffffffu;
  if (bits == 0 || bits >= 0x7f800000u) return 1;
  const int exponent = static_cast<int>(bits >> 23) - 127;
  const bool fits = (bits & 0x7fffffu) <= 0x600000u;  // 1.75
  const int up = float8_largest_exponent(form) - (fits ? 0 : 1) - exponent;
  return power_of_two(up > 126 ? 126 : up);
}

/// The code nearest to x; the largest one for what is larger.
WEFT_ANYWHERE constexpr std::uint8_t float8_code(float8_form form, float x) {
  const int mantissa = float8_mantissa(form), least = float8_least_exponent(form);
  const std::uint32_t bits = bits_of(x), sign = bits >> 24 & 0x80u, top = bits_of(1.75f) - (127u << 23);
  const std::uint32_t most = (static_cast<std::uint32_t>(float8_largest_exponent(form) + 127) << 23) + top;
  std::uint32_t size = bits & 0x7fffffffu;
  if (size >= 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
  if (size > most) size = most;
  std::uint32_t code;
  if (size < static_cast<std::uint32_t>(least + 127) << 23) {
    // In steps of the least one: a sum whose last digit that is, rounds so.
    const float step = power_of_two(least - mantissa + 23);
    code = bits_of(floats_of(size) + step) - bits_of(step);
  } else {
    const int cut = 23 - mantissa;
    size += (1u << (cut - 1)) - 1 + (size >> cut & 1u);
    code = (size >> cut) - (static_cast<std::uint32_t>(least - 1 + 127) << mantissa);
  }
  return static_cast<std::uint8_t>(sign | code);
}

/// The number of a code.
WEFT_ANYWHERE constexpr float float8_number(float8_form form, std::uint8_t code) {
  const int mantissa = float8_mantissa(form), least = float8_least_exponent(form);
  const std::uint32_t size = code & 0x7fu, exponent = size >> mantissa;
  const float sign = code & 0x80u ? -1.0f : 1.0f;
  const std::uint32_t not_finite = form == float8_form::e4m3 ? 0x7fu : 0x7cu;
  if (size >= not_finite) return floats_of(0x7fc00000u);
  if (exponent == 0) return sign * static_cast<float>(size) * power_of_two(least - mantissa);
  return sign * floats_of((size << (23 - mantissa)) + (static_cast<std::uint32_t>(least - 1 + 127) << 23));
}

/// 1 / scale.
WEFT_ANYWHERE constexpr float undoing(float scale) { return floats_of((254u << 23) - bits_of(scale)); }
/// x as that form has it under a scale.
WEFT_ANYWHERE constexpr float rounded_to_float8(float8_form form, float scale, float x) {
  return float8_number(form, float8_code(form, x * scale)) * undoing(scale);
}

}  // namespace detail
}  // namespace weft
