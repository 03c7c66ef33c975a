// 16-bit floats to float and back, eight at a time, for sums over ranks.
// Invariant: bit for bit what the conversions of bf16 and fp16 in core/dtype.hpp give (a NaN stays some NaN).
#pragma once

#include <cstdint>
#include <cstring>

#include "weft/core/dtype.hpp"

// Vectors of 16 bytes: the width that every x86-64 and arm64 has, so no compiler option changes their passing.
#if defined(__GNUC__) && !defined(__CUDACC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WEFT_DETAIL_VECTORS 1
#endif

namespace weft::detail {

#ifdef WEFT_DETAIL_VECTORS
typedef std::uint16_t eight_u16 __attribute__((vector_size(16)));
typedef std::uint32_t four_u32 __attribute__((vector_size(16)));
typedef std::int32_t four_i32 __attribute__((vector_size(16)));
typedef float four_f32 __attribute__((vector_size(16)));

inline four_u32 bits_of(four_f32 x) { return (four_u32)x; }
inline four_f32 floats_of(four_u32 x) { return (four_f32)x; }
/// Lanes of a where x < bound, else of b; both below 2^31.
inline four_u32 pick_less(four_u32 x, std::int32_t bound, four_u32 a, four_u32 b) {
  const four_u32 mask = (four_u32)((four_i32)x < bound);
  return (mask & a) | (~mask & b);
}

/// `raised` has the bits of a T in the upper half of each lane.
template <class T>
four_f32 widen_four(four_u32 raised) {
  if constexpr (dtype_of<T> == dtype::bf16) {
    return floats_of(raised);
  } else {
    const four_u32 h = raised >> 16;
    const four_u32 magnitude = h & 0x7fff;
    const four_u32 normal = (magnitude << 13) + 0x38000000;
    const four_u32 special = (magnitude & 0x3ff) << 13 | 0x7f800000;
    const four_u32 small = bits_of(__builtin_convertvector((four_i32)magnitude, four_f32) * 0x1p-24f);  // exact
    const four_u32 large = pick_less(magnitude, 0x7c00, normal, special);
    return floats_of((raised & 0x80000000u) | pick_less(magnitude, 0x400, small, large));
  }
}

/// The bits of T(x) in the upper half of each lane; the lower half is anything.
template <class T>
four_u32 narrow_four(four_f32 x) {
  const four_u32 u = bits_of(x), magnitude = u & 0x7fffffff;
  if constexpr (dtype_of<T> == dtype::bf16) {
    return pick_less(magnitude, 0x7f800001, u + 0x7fff + (u >> 16 & 1), u | 0x400000);
  } else {
    const four_u32 normal = (magnitude + 0x0fff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
    const four_u32 small = bits_of(floats_of(magnitude) + 0.5f) - 0x3f000000;  // rounds to a multiple of 2^-24
    const four_u32 special = pick_less(magnitude, 0x7f800001, four_u32{} + 0x7c00, four_u32{} + 0x7e00);
    const four_u32 large = pick_less(magnitude, 0x477ff000, normal, special);
    return (u & 0x80000000u) | pick_less(magnitude, 0x38800000, small, large) << 16;
  }
}

template <class T>
void load_wide(four_f32& x, four_f32& y, const T* from) {
  eight_u16 h;
  std::memcpy(&h, from, sizeof h);
  const eight_u16 zero = {};  // little-endian: the second of a pair is the upper half
  x = widen_four<T>((four_u32)__builtin_shufflevector(zero, h, 0, 8, 1, 9, 2, 10, 3, 11));
  y = widen_four<T>((four_u32)__builtin_shufflevector(zero, h, 4, 12, 5, 13, 6, 14, 7, 15));
}
template <class T>
void store_narrow(T* to, const four_f32& x, const four_f32& y) {
  const four_u32 a = narrow_four<T>(x), b = narrow_four<T>(y);
#ifdef __SSE2__
  const auto h = __builtin_ia32_packssdw128((four_i32)a >> 16, (four_i32)b >> 16);  // never saturates
#else
  const auto h = __builtin_shufflevector((eight_u16)a, (eight_u16)b, 1, 3, 5, 7, 9, 11, 13, 15);
#endif
  static_assert(sizeof h == 16);
  std::memcpy(static_cast<void*>(to), &h, sizeof h);
}
#endif

}  // namespace weft::detail
