// 16-bit floats to float and back, four at a time, for sums over ranks.
// Invariant: bit for bit what the conversions of bf16 and fp16 in core/dtype.hpp give (a NaN stays some NaN).
#pragma once

#include <cstdint>
#include <cstring>

#include "weft/core/dtype.hpp"

// Vectors of 16 bytes: the width that every x86-64 and arm64 has, so no compiler option changes their passing.
#if defined(__GNUC__) && !defined(__CUDACC__)
#define WEFT_DETAIL_VECTORS 1
#endif

namespace weft::detail {

#ifdef WEFT_DETAIL_VECTORS
typedef std::uint16_t four_u16 __attribute__((vector_size(8)));
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

template <class T>
four_f32 widen_four(four_u32 h) {
  if constexpr (dtype_of<T> == dtype::bf16) {
    return floats_of(h << 16);
  } else {
    const four_u32 magnitude = h & 0x7fff;
    const four_u32 normal = (magnitude << 13) + 0x38000000;
    const four_u32 special = (magnitude & 0x3ff) << 13 | 0x7f800000;
    const four_u32 small = bits_of(__builtin_convertvector((four_i32)magnitude, four_f32) * 0x1p-24f);  // exact
    return floats_of((h & 0x8000) << 16 | pick_less(magnitude, 0x400, small, pick_less(magnitude, 0x7c00, normal, special)));
  }
}

template <class T>
four_u32 narrow_four(four_f32 x) {
  const four_u32 u = bits_of(x), magnitude = u & 0x7fffffff;
  if constexpr (dtype_of<T> == dtype::bf16) {
    return pick_less(magnitude, 0x7f800001, u + 0x7fff + (u >> 16 & 1), u | 0x400000) >> 16;
  } else {
    const four_u32 normal = (magnitude + 0x0fff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
    const four_u32 small = bits_of(floats_of(magnitude) + 0.5f) - 0x3f000000;  // rounds to a multiple of 2^-24
    const four_u32 special = pick_less(magnitude, 0x7f800001, four_u32{} + 0x7c00, four_u32{} + 0x7e00);
    return (u >> 16 & 0x8000) |
           pick_less(magnitude, 0x38800000, small, pick_less(magnitude, 0x477ff000, normal, special));
  }
}

template <class T>
void load_wide(four_f32& x, const T* from) {
  four_u16 h;
  std::memcpy(&h, from, sizeof h);
  x = widen_four<T>(__builtin_convertvector(h, four_u32));
}
template <class T>
void store_narrow(T* to, const four_f32& x) {
  const four_u16 h = __builtin_convertvector(narrow_four<T>(x), four_u16);
  std::memcpy(static_cast<void*>(to), &h, sizeof h);
}
#endif

}  // namespace weft::detail
