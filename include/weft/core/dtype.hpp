// Element types: what a tensor's numbers are stored as, and what they are computed in.
// Invariant: a 16-bit float is storage only; arithmetic on it is done in float.
#pragma once

#include <weft/core/requirements.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft {

/// bfloat16: the upper half of an IEEE binary32. Conversion rounds to nearest, ties to even; NaN stays NaN.
struct bf16 {
  std::uint16_t bits = 0;

  constexpr bf16() = default;
  constexpr explicit bf16(float value) : bits(round(value)) {}
  constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

  static constexpr bf16 from_bits(std::uint16_t bits) {
    bf16 out;
    out.bits = bits;
    return out;
  }

 private:
  static constexpr std::uint16_t round(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((u >> 16) | 0x40u);
    return static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
};

/// fp16: IEEE 754 binary16, subnormals included. Conversion rounds to nearest, ties to even; overflow gives infinity.
struct fp16 {
  std::uint16_t bits = 0;

  constexpr fp16() = default;
  constexpr explicit fp16(float value) : bits(round(value)) {}
  constexpr operator float() const { return widen(bits); }

  static constexpr fp16 from_bits(std::uint16_t bits) {
    fp16 out;
    out.bits = bits;
    return out;
  }

 private:
  static constexpr float widen(std::uint16_t h) {
    const std::uint32_t sign = std::uint32_t(h & 0x8000u) << 16;
    const std::uint32_t magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
    const float value = static_cast<float>(magnitude) * 0x1p-24f;  // subnormal or zero, exact
    return sign ? -value : value;
  }
  static constexpr std::uint16_t round(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
    const std::uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {  // below 2^-14: round to a multiple of 2^-24 by adding 2^-1 in float
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
    }
    const std::uint32_t rounded = magnitude + 0x0fffu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
};

enum class dtype : std::uint8_t { f64, f32, bf16, f16, i64, i32, u8 };

template <class T>
inline constexpr bool is_element = false;
template <class T>
inline constexpr dtype dtype_of = dtype::u8;

#define WEFT_DETAIL_ELEMENT(Type, Value)         \
  template <>                                    \
  inline constexpr bool is_element<Type> = true; \
  template <>                                    \
  inline constexpr dtype dtype_of<Type> = dtype::Value
WEFT_DETAIL_ELEMENT(double, f64);
WEFT_DETAIL_ELEMENT(float, f32);
WEFT_DETAIL_ELEMENT(bf16, bf16);
WEFT_DETAIL_ELEMENT(fp16, f16);
WEFT_DETAIL_ELEMENT(std::int64_t, i64);
WEFT_DETAIL_ELEMENT(std::int32_t, i32);
WEFT_DETAIL_ELEMENT(std::uint8_t, u8);
#undef WEFT_DETAIL_ELEMENT

template <class T>
concept element = is_element<T>;
template <class T>
concept floating = is_element<T> &&(dtype_of<T> <= dtype::f16);

/// Bytes of one element.
constexpr std::size_t size_of(dtype type) {
  switch (type) {
    case dtype::f64:
    case dtype::i64:
      return 8;
    case dtype::f32:
    case dtype::i32:
      return 4;
    case dtype::bf16:
    case dtype::f16:
      return 2;
    case dtype::u8:
      return 1;
  }
  return 0;
}

constexpr const char* name_of(dtype type) {
  switch (type) {
    case dtype::f64:
      return "fp64";
    case dtype::f32:
      return "fp32";
    case dtype::bf16:
      return "bf16";
    case dtype::f16:
      return "fp16";
    case dtype::i64:
      return "int64";
    case dtype::i32:
      return "int32";
    case dtype::u8:
      return "uint8";
  }
  return "?";
}

namespace detail {
template <class T>
struct accumulate {
  using type = float;
};
template <>
struct accumulate<double> {
  using type = double;
};
template <>
struct accumulate<std::int64_t> {
  using type = std::int64_t;
};
template <>
struct accumulate<std::int32_t> {
  using type = std::int64_t;
};
template <>
struct accumulate<std::uint8_t> {
  using type = std::int64_t;
};
}  // namespace detail

/// What sums over elements of type T are kept in: double for double, float for every other float, int64 for integers.
template <element T>
using accumulate_t = typename detail::accumulate<T>::type;

/// Calls `f.template operator()<T>()` with the element type that `type` names.
template <class F>
constexpr decltype(auto) visit_dtype(dtype type, F&& f) {
  switch (type) {
    case dtype::f64:
      return f.template operator()<double>();
    case dtype::bf16:
      return f.template operator()<bf16>();
    case dtype::f16:
      return f.template operator()<fp16>();
    case dtype::i64:
      return f.template operator()<std::int64_t>();
    case dtype::i32:
      return f.template operator()<std::int32_t>();
    case dtype::u8:
      return f.template operator()<std::uint8_t>();
    default:
      return f.template operator()<float>();
  }
}

}  // namespace weft
