// The bits of float's two 16-bit types: how they widen, and how a float is rounded to them. Written once, for a number
// and for four lanes of them; processors with instructions of their own for it use those (backend/cpu/simd.inl).
// Invariant: nearest, ties to even; infinities and subnormals are kept, and a NaN stays some NaN.
#pragma once

#include <weft/core/requirements.hpp>

#include <bit>
#include <cstdint>
#include <type_traits>

namespace weft::detail {

constexpr float floats_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
constexpr std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
constexpr float float_from(std::uint32_t whole) { return static_cast<float>(whole); }
constexpr std::uint32_t pick_less(std::uint32_t x, std::int32_t bound, std::uint32_t a, std::uint32_t b) {
  return x < static_cast<std::uint32_t>(bound) ? a : b;
}

// Vectors of 16 bytes: the width that every x86-64 and arm64 has, so no compiler option changes their passing.
#if defined(__GNUC__)
typedef std::uint32_t four_u32 __attribute__((vector_size(16)));
typedef std::int32_t four_i32 __attribute__((vector_size(16)));
typedef float four_f32 __attribute__((vector_size(16)));

inline four_f32 floats_of(four_u32 bits) { return (four_f32)bits; }
inline four_u32 bits_of(four_f32 x) { return (four_u32)x; }
/// Of lanes below 2^31.
inline four_f32 float_from(four_u32 whole) { return __builtin_convertvector((four_i32)whole, four_f32); }
/// Lanes of a where x < bound, else of b; both below 2^31.
inline four_u32 pick_less(four_u32 x, std::int32_t bound, four_u32 a, four_u32 b) {
  const four_u32 mask = (four_u32)((four_i32)x < bound);
  return (mask & a) | (~mask & b);
}
#endif

/// x cut to a float whose last bit says whether something was cut: it rounds to 16 bits as x does.
constexpr float cut_to_float(double x) {
  const float near = static_cast<float>(x);
  if (static_cast<double>(near) == x || x != x) return near;
  const bool beyond = (static_cast<double>(near) > x) == (x > 0);
  return floats_of((bits_of(near) - (beyond ? 1u : 0u)) | 1u);
}

constexpr float cut_to_float(std::int64_t x) {
  auto size = x < 0 ? 0 - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
  if (size >> 53) size = (size | ((size & 0x7ffu) != 0 ? 0x800u : 0u)) & ~std::uint64_t{0x7ff};  // as a double holds it
  return cut_to_float(x < 0 ? -static_cast<double>(size) : static_cast<double>(size));
}
/// Of which number a 16-bit type's nearest is that of `value`.
template <class Number>
using number_to_cut = std::conditional_t<std::is_integral_v<Number> && (std::is_signed_v<Number> || sizeof(Number) < 8),
                                         std::int64_t, double>;

/// The bits of the float that a bf16 or fp16 in the upper half of each lane stands for.
template <class Lanes>
constexpr Lanes widened_bf16(Lanes raised) {
  return raised;
}
template <class Lanes>
constexpr Lanes widened_fp16(Lanes raised) {
  const Lanes magnitude = (raised >> 16) & 0x7fffu;
  const Lanes normal = (magnitude << 13) + 0x38000000u;
  const Lanes special = ((magnitude & 0x3ffu) << 13) | 0x7f800000u;
  const Lanes small = bits_of(float_from(magnitude) * 0x1p-24f);  // exact
  const Lanes large = pick_less(magnitude, 0x7c00, normal, special);
  return (raised & 0x80000000u) | pick_less(magnitude, 0x400, small, large);
}

/// A float's bits -> those of the nearest bf16 or fp16 in the upper half of each lane; the lower half is anything.
template <class Lanes>
constexpr Lanes narrowed_bf16(Lanes u) {
  return pick_less(u & 0x7fffffffu, 0x7f800001, u + 0x7fffu + ((u >> 16) & 1u), u | 0x400000u);
}
template <class Lanes>
constexpr Lanes narrowed_fp16(Lanes u) {
  const Lanes magnitude = u & 0x7fffffffu, none = u ^ u;  // not Lanes{}, a constant that nvcc 13 can't compile
  const Lanes normal = (magnitude + 0x0fffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const Lanes below = pick_less(magnitude, 0x38800000, magnitude, none);  // 2^-14
  const Lanes small = bits_of(floats_of(below) + 0.5f) - 0x3f000000u;     // rounds to a multiple of 2^-24
  const Lanes special = pick_less(magnitude, 0x7f800001, none + 0x7c00u, none + 0x7e00u);
  const Lanes large = pick_less(magnitude, 0x477ff000, normal, special);
  return (u & 0x80000000u) | (pick_less(magnitude, 0x38800000, small, large) << 16);
}

}  // namespace weft::detail
