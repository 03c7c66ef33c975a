// The matrix kernels of every instruction set, and which of them is in use.
// Invariant: the choice depends on the instruction set and the element type only, never on sizes or threads.
#pragma once

#include <weft/backend/cpu/matmul/types.hpp>
#include <weft/backend/cpu/simd.hpp>

#define WEFT_KERNELS <weft/backend/cpu/matmul/pack.inl>
#include <weft/backend/cpu/each_target.inl>
#define WEFT_KERNELS <weft/backend/cpu/matmul/tile.inl>
#include <weft/backend/cpu/each_target.inl>
#define WEFT_KERNELS <weft/backend/cpu/matmul/amx.inl>
#include <weft/backend/cpu/each_target.inl>
#define WEFT_KERNELS <weft/backend/cpu/matmul/row.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu::detail {

template <class T, class Out>
matmul_kernels<T, Out> kernels_in_use() {
#if defined(WEFT_X86)
  if constexpr (dtype_of<T> == dtype::bf16) {
    if (current_isa() >= isa::amx) return avx512::tile_kernels<avx512::hardware_tiles, Out>();
    if (current_isa() >= isa::avx512_bf16) return avx512::pair_kernels<T, Out>();
  }
#endif
  const matmul_kernels<T, Out>* none = nullptr;  // names both types for the macro
  WEFT_DISPATCH(single_kernels, none);
}

/// Their tile, without compiling them.
template <class T>
matmul_tile tile_in_use() {
#if defined(WEFT_X86)
  if constexpr (dtype_of<T> == dtype::bf16) {
    if (current_isa() >= isa::amx) return avx512::amx_tile();
    if (current_isa() >= isa::avx512_bf16) return avx512::pair_tile();
  }
#endif
  const T* none = nullptr;  // names the type for the macro
  WEFT_DISPATCH(single_tile, none);
}

template <class T>
void row_times_rows(const accumulate_t<T>* x, const T* b, std::int64_t next, std::int64_t n, std::int64_t k,
                    accumulate_t<T>* y) {
  WEFT_DISPATCH(row_times_rows, x, b, next, n, k, y);
}
template <class T>
void row_times_columns(const accumulate_t<T>* x, const T* b, std::int64_t next, std::int64_t n, std::int64_t k,
                       accumulate_t<T>* y) {
  WEFT_DISPATCH(row_times_columns, x, b, next, n, k, y);
}
template <class T, class Out>
void finish_row(const accumulate_t<T>* y, std::int64_t n, Out* c, bool accumulate) {
  WEFT_DISPATCH(finish_row<T>, y, n, c, accumulate);
}

}  // namespace weft::cpu::detail
