// Element types: what a tensor's numbers are stored as, and what they are computed in.
// Invariant: a 16-bit float is storage only; arithmetic on it is done in float.
#pragma once

#include <weft/core/requirements.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/core/half_bits.hpp>

namespace weft {

/// bfloat16: the upper half of an IEEE binary32. Conversion rounds to nearest, ties to even; NaN stays NaN.
struct bf16 {
  std::uint16_t bits = 0;

  constexpr bf16() = default;
  constexpr explicit bf16(float value)
      : bits(static_cast<std::uint16_t>(detail::narrowed_bf16(detail::bits_of(value)) >> 16)) {}
  /// Rounded once, from a double or a whole number too.
  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr explicit bf16(Number value) : bf16(detail::cut_to_float(detail::number_to_cut<Number>(value))) {}
  constexpr operator float() const { return detail::floats_of(detail::widened_bf16(std::uint32_t{bits} << 16)); }

  static constexpr bf16 from_bits(std::uint16_t bits) {
    bf16 out;
    out.bits = bits;
    return out;
  }
};

/// fp16: IEEE 754 binary16, subnormals included. Conversion rounds to nearest, ties to even; overflow gives infinity.
struct fp16 {
  std::uint16_t bits = 0;

  constexpr fp16() = default;
  constexpr explicit fp16(float value)
      : bits(static_cast<std::uint16_t>(detail::narrowed_fp16(detail::bits_of(value)) >> 16)) {}
  /// Rounded once, from a double or a whole number too.
  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr explicit fp16(Number value) : fp16(detail::cut_to_float(detail::number_to_cut<Number>(value))) {}
  constexpr operator float() const { return detail::floats_of(detail::widened_fp16(std::uint32_t{bits} << 16)); }

  static constexpr fp16 from_bits(std::uint16_t bits) {
    fp16 out;
    out.bits = bits;
    return out;
  }
};

/// An element type, where it is known only as the program runs, as in a collective. f64, f32: double, float. bf16, f16:
/// weft::bf16, weft::fp16. i64, i32, u8: std::int64_t, std::int32_t, std::uint8_t. size_of(type) is its bytes, and
/// visit_dtype(type, f) calls f with it.
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

/// How a frozen weight is stored. plain: in the compute type. int8: 8 bits and a scale for each output channel. nf4: 4
/// bits, and for each 64 elements of the whole tensor a scale, itself of 8 bits.
enum class weight_format : std::uint8_t { plain, int8, nf4 };
constexpr const char* name_of(weight_format f) {
  constexpr const char* names[] = {"plain", "int8", "nf4"};
  return names[static_cast<int>(f)];
}

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
