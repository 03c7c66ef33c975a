// 16-bit floats to float and back, eight at a time, for sums over ranks.
// Invariant: bit for bit what the conversions of bf16 and fp16 in core/dtype.hpp give (a NaN stays some NaN).
#pragma once

#include <cstdint>
#include <cstring>

#include "weft/core/dtype.hpp"

#if defined(__GNUC__) && !defined(__CUDACC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WEFT_DETAIL_VECTORS 1
#endif

namespace weft::detail {

#ifdef WEFT_DETAIL_VECTORS
typedef std::uint16_t eight_u16 __attribute__((vector_size(16)));

/// `raised` has the bits of a T in the upper half of each lane.
template <class T>
four_f32 widen_four(four_u32 raised) {
  if constexpr (dtype_of<T> == dtype::bf16)
    return floats_of(widened_bf16(raised));
  else
    return floats_of(widened_fp16(raised));
}
/// The bits of T(x) in the upper half of each lane; the lower half is anything.
template <class T>
four_u32 narrow_four(four_f32 x) {
  if constexpr (dtype_of<T> == dtype::bf16)
    return narrowed_bf16(bits_of(x));
  else
    return narrowed_fp16(bits_of(x));
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
