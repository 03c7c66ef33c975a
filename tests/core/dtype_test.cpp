// 16-bit floats: every bit pattern round trips, and rounding agrees with a reference that works in exact double
// arithmetic from the formats' definitions, not from bits.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

#include <weft/core/dtype.hpp>

#include "sample.hpp"

namespace {

using weft::bf16;
using weft::dtype;
using weft::fp16;

struct format {
  int mantissa;      // stored bits of the significand
  int min_exponent;  // of the smallest normal number
  int max_exponent;  // of the largest finite number
};
template <class T>
constexpr format format_of = {7, -126, 127};
template <>
constexpr format format_of<fp16> = {10, -14, 15};

std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
float float_from(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// What a 16-bit pattern means, from the formats' definition.
template <class T>
double meaning(std::uint16_t bits) {
  constexpr format f = format_of<T>;
  const double sign = bits >> 15 ? -1.0 : 1.0;
  const int exponent = (bits & 0x7fff) >> f.mantissa;
  const int fraction = bits & ((1 << f.mantissa) - 1);
  const int all_ones = (1 << (15 - f.mantissa)) - 1;
  if (exponent == all_ones) {
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, f.min_exponent - f.mantissa);
  return sign * std::ldexp((1 << f.mantissa) + fraction, exponent - 1 + f.min_exponent - f.mantissa);
}

// The nearest number of the format, ties to even. Exact: a float scaled by a power of two is exact in double, and
// nearbyint rounds ties to even in the default rounding mode.
template <class T>
double nearest(float value) {
  constexpr format f = format_of<T>;
  if (std::isnan(value) || std::isinf(value) || value == 0) return value;
  int exponent;
  std::frexp(value, &exponent);  // |value| in [2^(exponent-1), 2^exponent)
  const int quantum = (exponent - 1 > f.min_exponent ? exponent - 1 : f.min_exponent) - f.mantissa;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(double(value), -quantum)), quantum);
  if (std::fabs(rounded) >= std::ldexp(1.0, f.max_exponent + 1)) {
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  }
  return rounded;
}

bool same(double a, double b) {  // equal with the sign of zero; NaN equals NaN
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

TEST_CASE_TEMPLATE("every bit pattern means what the format says", T, bf16, fp16) {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    if (!same(float(T::from_bits(b)), meaning<T>(b))) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("every bit pattern survives the way to float and back", T, bf16, fp16) {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    const T back{float(T::from_bits(b))};
    const bool nan = std::isnan(meaning<T>(b));
    // A NaN stays a NaN of its sign; its payload is not promised.
    if (nan ? !std::isnan(float(back)) || (back.bits ^ b) >> 15 : back.bits != b) ++wrong;
  }
  CHECK(wrong == 0);
}

// Every sign, exponent and upper fraction (65536 upper halves) with the lower halves at which any rounding decision
// can change: zero, one, and each power of two with its neighbours.
TEST_CASE_TEMPLATE("rounding is to nearest, ties to even, everywhere", T, bf16, fp16) {
  std::uint32_t lower[16 * 3 + 2];
  int count = 0;
  lower[count++] = 0;
  lower[count++] = 0xffff;
  for (int bit = 0; bit < 16; ++bit) {
    for (int delta = -1; delta <= 1; ++delta) lower[count++] = ((1u << bit) + std::uint32_t(delta)) & 0xffffu;
  }
  int wrong = 0;
  std::uint32_t example = 0;
  for (std::uint32_t upper = 0; upper < 0x10000; upper += std::uint32_t(weft_test::sample_stride())) {
    for (int i = 0; i < count; ++i) {
      const std::uint32_t bits = upper << 16 | lower[i];
      const float value = float_from(bits);
      if (!same(float(T(value)), nearest<T>(value))) ++wrong, example = bits;
    }
  }
  CAPTURE(example);
  CHECK(wrong == 0);
}

// Halfway between every two neighbours, and one float to either side: all ties, subnormals and the overflow included.
TEST_CASE_TEMPLATE("ties between all neighbours go to the even one", T, bf16, fp16) {
  const std::uint16_t infinity = T(std::numeric_limits<float>::infinity()).bits;
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < infinity; ++bits) {
    const double low = meaning<T>(static_cast<std::uint16_t>(bits));
    // Above the largest finite number stands 2^(max_exponent + 1), where infinity takes over.
    const double high = bits + 1 < infinity ? meaning<T>(static_cast<std::uint16_t>(bits + 1))
                                            : std::ldexp(1.0, format_of<T>.max_exponent + 1);
    const auto tie = static_cast<float>((low + high) / 2);  // exact: one bit more than either
    const std::uint32_t even = bits & 1 ? bits + 1 : bits;
    if (T(tie).bits != even) ++wrong;
    if (T(std::nextafter(tie, 0.0f)).bits != bits) ++wrong;
    if (T(float_from(bits_of(tie) + 1)).bits != bits + 1) ++wrong;
    if (T(-tie).bits != (even | 0x8000u)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("the ends of the formats") {
  CHECK(bf16(1.0f).bits == 0x3f80);
  CHECK(fp16(1.0f).bits == 0x3c00);
  CHECK(fp16(65504.0f).bits == 0x7bff);
  CHECK(fp16(65519.996f).bits == 0x7bff);
  CHECK(fp16(65520.0f).bits == 0x7c00);
  CHECK(fp16(-1e30f).bits == 0xfc00);
  CHECK(fp16(0x1p-24f).bits == 0x0001);
  CHECK(fp16(0x1p-25f).bits == 0x0000);  // a tie, to the even zero
  CHECK(fp16(-0x1p-26f).bits == 0x8000);
  CHECK(bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bf16(std::numeric_limits<float>::denorm_min()).bits == 0);
  CHECK(std::isnan(float(bf16(float_from(0x7f800001)))));  // a payload that lies below the cut
  CHECK(std::isnan(float(fp16(float_from(0xff800001)))));
}

TEST_CASE("conversions are constant expressions") {
  static_assert(bf16(1.5f).bits == 0x3fc0);
  static_assert(fp16(0x1p-24f).bits == 1);
  static_assert(float(fp16::from_bits(1)) == 0x1p-24f);
  static_assert(float(bf16::from_bits(0x3fc0)) == 1.5f);
  static_assert(!std::is_convertible_v<float, bf16> && !std::is_convertible_v<float, fp16>, "narrowing is explicit");
  static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2);
  CHECK(true);
}

TEST_CASE("each dtype has a size, a name and a type") {
  for (dtype type : {dtype::f64, dtype::f32, dtype::bf16, dtype::f16, dtype::i64, dtype::i32, dtype::u8}) {
    CAPTURE(weft::name_of(type));
    const auto seen = weft::visit_dtype(type, []<class T>() { return std::pair{weft::dtype_of<T>, sizeof(T)}; });
    CHECK(seen.first == type);
    CHECK(seen.second == weft::size_of(type));
    CHECK(std::strcmp(weft::name_of(type), "?") != 0);
  }
}

TEST_CASE("the element concepts and what sums are kept in") {
  static_assert(weft::element<bf16> && weft::element<std::uint8_t> && !weft::element<long double>);
  static_assert(weft::floating<double> && weft::floating<float> && weft::floating<bf16> && weft::floating<fp16>);
  static_assert(!weft::floating<std::int64_t> && !weft::floating<std::uint8_t> && !weft::floating<char>);
  static_assert(std::is_same_v<weft::accumulate_t<double>, double>);
  static_assert(std::is_same_v<weft::accumulate_t<bf16>, float> && std::is_same_v<weft::accumulate_t<fp16>, float>);
  static_assert(std::is_same_v<weft::accumulate_t<std::uint8_t>, std::int64_t>);
  CHECK(true);
}

}  // namespace
