// Numbers of 16 bits, and what several families of opcodes compute alike, to the device's bit: rounding, sums, minima.
// Written from the documentation of PTX, and from nothing of the library that it is to judge.
// Invariant: each result is rounded once.
#pragma once

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace device {

inline float float_of_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
inline std::uint16_t bf16_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
inline float float_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31, exponent = bits >> 10 & 31, fraction = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(small) | sign);
}
inline std::uint16_t f16_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x), size = bits & 0x7fffffffu;
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  if (size > 0x7f800000u) return 0x7fff;
  if (size >= 0x477ff000u) return sign | 0x7c00;  // 65520 and more
  if (size < 0x38800000u)                         // under 2^-14: multiples of 2^-24
    return static_cast<std::uint16_t>(sign | static_cast<int>(std::nearbyint(std::bit_cast<float>(size) * 0x1p24f)));
  return static_cast<std::uint16_t>(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13);
}

/// The two types of 16 bits, as numbers.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float x) : bits(bf16_of(x)) {}
  explicit operator float() const { return float_of_bf16(bits); }
};
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  explicit f16(float x) : bits(f16_of(x)) {}
  explicit operator float() const { return float_of_f16(bits); }
};
template <class T>
concept half = std::same_as<T, bf16> || std::same_as<T, f16>;

/// To nearest, to zero, down, up.
enum rounding : std::uint8_t { nearest, to_zero, down, up };
/// While it lives, the host rounds so.
class rounded {
 public:
  explicit rounded(std::uint8_t how) : old_(std::fegetround()), changes_(how != nearest) {
    if (changes_) std::fesetround(how == to_zero ? FE_TOWARDZERO : how == down ? FE_DOWNWARD : FE_UPWARD);
  }
  ~rounded() {
    if (changes_) std::fesetround(old_);
  }
  rounded(const rounded&) = delete;
  rounded& operator=(const rounded&) = delete;

 private:
  int old_;
  bool changes_;
};
/// Into [0, 1]; NaN becomes 0.
template <class T>
T saturated(T x) {
  return x > T(0) ? std::min(x, T(1)) : T(0);
}

/// Subnormal numbers become zero with their sign, as .ftz asks.
inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

struct op_add {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::integral<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct op_subtract {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::integral<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) - static_cast<U>(b)));
    } else {
      return a - b;
    }
  }
};
struct op_multiply {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::integral<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    else
      return a * b;
  }
};
/// Of a number and NaN the number; -0 is less than 0.
struct op_min {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::integral<T>) {
      return std::min(a, b);
    } else {
      if (std::isnan(a)) return b;
      return std::isnan(b) || a < b || (a == b && std::signbit(a)) ? a : b;
    }
  }
};
struct op_max {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::integral<T>) {
      return std::max(a, b);
    } else {
      if (std::isnan(a)) return b;
      return std::isnan(b) || a > b || (a == b && !std::signbit(a)) ? a : b;
    }
  }
};
template <class Op>
struct op_with_nan {  // min.NaN, max.NaN
  template <class T>
  static T of(T a, T b) {
    if constexpr (!std::integral<T>)
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    return Op::of(a, b);
  }
};
struct op_and {
  template <std::integral T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct op_or {
  template <std::integral T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct op_xor {
  template <std::integral T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace device
