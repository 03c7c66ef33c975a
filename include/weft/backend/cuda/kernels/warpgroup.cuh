// Products of a warpgroup, four warps with 16 rows each, on the tensor cores of sm_90a (PTX: wgmma), which read their
// second matrix, and the first if it isn't in registers, from shared memory, and go on behind the program's back.
// Invariant: what a product has of registers isn't touched from begin_products() to wait_for_products().
#pragma once

#include <cstdint>

#include <weft/backend/cuda/kernels/tensor_tile.hpp>
#include <weft/backend/cuda/kernels/tile_copy.cuh>

namespace weft::gpu {

inline constexpr int warpgroup_size = 4 * warp_size;

/// Where wgmma finds a matrix in tiles as tile_copy.cuh has them, from `at` on: `panel` bytes from one of 64 columns to
/// the next. All lanes of a warp ask, with the same `at`: of what a shuffle brings ptxas knows that, and works out what
/// is further on where wgmma reads it from, once a warp.
__device__ inline std::uint64_t matrix_in_tile(std::uint32_t at, int panel) {
  constexpr std::uint64_t swizzle_of_128 = std::uint64_t{1} << 62, eight_rows = std::uint64_t{1024 / 16} << 32;
  const std::uint32_t first = __shfl_sync(0xffffffffu, at, 0) / 16;
  return swizzle_of_128 | eight_rows | static_cast<std::uint64_t>(panel / 16) << 16 | first;
}
/// The same matrix, so many bytes on.
__device__ inline std::uint64_t further(std::uint64_t matrix, int bytes) {
  const std::uint32_t first = static_cast<std::uint32_t>(matrix) + static_cast<std::uint32_t>(bytes / 16);
  return (matrix & 0xffffffff00000000u) | first;
}

/// Keeps the compiler from reading or writing these registers on the other side of this line.
template <int N>
__device__ void pin(tensor_sums<1, N>& c) {
  WEFT_UNROLLED for (int n = 0; n < N; ++n)
      WEFT_UNROLLED for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(c.at[0][n][i])::"memory");
}
template <int K>
__device__ void pin(tensor_rows<1, K>& a) {
  WEFT_UNROLLED for (int k = 0; k < K; ++k)
      WEFT_UNROLLED for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(a.at[0][k].at[i])::"memory");
}

/// Before the first of some products: what was written to registers is written.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Ends a group of them.
__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits for all groups but the last `Left`. What they had of registers is pinned next.
template <int Left>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}
/// So many registers a thread from here on, of the whole warpgroup.
template <int N>
__device__ void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

#define WEFT_SUM_OF(how, n) how(c.at[0][n][0]), how(c.at[0][n][1]), how(c.at[0][n][2]), how(c.at[0][n][3])
#define WEFT_SUMS_8(n)                                                                                               \
  WEFT_SUM(n), WEFT_SUM(n + 1), WEFT_SUM(n + 2), WEFT_SUM(n + 3), WEFT_SUM(n + 4), WEFT_SUM(n + 5), WEFT_SUM(n + 6), \
      WEFT_SUM(n + 7)
#define WEFT_REGISTERS_64                                                  \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WEFT_REGISTERS_128                                                           \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/// c (+)= a b^T of 16 columns, [64, 16] and [8 N, 16], both by rows in shared memory. What c was is read only to be
/// added to.
template <class T, bool Add, int N>
__device__ void multiply_rows(tensor_sums<1, N>& c, std::uint64_t a, std::uint64_t b) {
  static_assert(N == 8 || N == 16);
#define WEFT_MULTIPLY(columns, type, sums, first, second, add)                                                        \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type " {" sums "}, " first ", " second ", " add \
               ", 1, 1, 0, 0;"                                                                                        \
               : WEFT_SUMS                                                                                            \
               : "l"(a), "l"(b)                                                                                       \
               : "memory")
#define WEFT_MULTIPLY_64(type, add) WEFT_MULTIPLY("64", type, WEFT_REGISTERS_64, "%32", "%33", add)
#define WEFT_MULTIPLY_128(type, add) WEFT_MULTIPLY("128", type, WEFT_REGISTERS_128, "%64", "%65", add)
#define WEFT_MULTIPLY_OF(multiply, add)     \
  if constexpr (dtype_of<T> == dtype::bf16) \
    multiply("bf16.bf16", add);             \
  else                                      \
    multiply("f16.f16", add)
#define WEFT_SUM(n) WEFT_SUM_OF("+f", n)
  if constexpr (N == 8 && Add) {
#define WEFT_SUMS WEFT_SUMS_8(0)
    WEFT_MULTIPLY_OF(WEFT_MULTIPLY_64, "1");
#undef WEFT_SUMS
  } else if constexpr (Add) {
#define WEFT_SUMS WEFT_SUMS_8(0), WEFT_SUMS_8(8)
    WEFT_MULTIPLY_OF(WEFT_MULTIPLY_128, "1");
#undef WEFT_SUMS
  }
#undef WEFT_SUM
#define WEFT_SUM(n) WEFT_SUM_OF("=f", n)
  if constexpr (N == 8 && !Add) {
#define WEFT_SUMS WEFT_SUMS_8(0)
    WEFT_MULTIPLY_OF(WEFT_MULTIPLY_64, "0");
#undef WEFT_SUMS
  } else if constexpr (!Add) {
#define WEFT_SUMS WEFT_SUMS_8(0), WEFT_SUMS_8(8)
    WEFT_MULTIPLY_OF(WEFT_MULTIPLY_128, "0");
#undef WEFT_SUMS
  }
#undef WEFT_SUM
#undef WEFT_MULTIPLY
#undef WEFT_MULTIPLY_64
#undef WEFT_MULTIPLY_128
#undef WEFT_MULTIPLY_OF
}

/// c += a b, [64, 16] in registers and [16, 8 N] by rows in shared memory.
template <class T, int N>
__device__ void add_product_of(tensor_sums<1, N>& c, const fragment& a, std::uint64_t b) {
  static_assert(N == 8 || N == 16);
#define WEFT_SUM(n) WEFT_SUM_OF("+f", n)
#define WEFT_MULTIPLY(columns, type, sums, first, second, third, fourth, matrix)                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type " {" sums "}, {" first ", " second \
               ", " third ", " fourth "}, " matrix ", 1, 1, 1, 1;"                                            \
               : WEFT_SUMS                                                                                    \
               : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "l"(b)                               \
               : "memory")
#define WEFT_MULTIPLY_64(type) WEFT_MULTIPLY("64", type, WEFT_REGISTERS_64, "%32", "%33", "%34", "%35", "%36")
#define WEFT_MULTIPLY_128(type) WEFT_MULTIPLY("128", type, WEFT_REGISTERS_128, "%64", "%65", "%66", "%67", "%68")
  if constexpr (N == 8) {
#define WEFT_SUMS WEFT_SUMS_8(0)
    if constexpr (dtype_of<T> == dtype::bf16)
      WEFT_MULTIPLY_64("bf16.bf16");
    else
      WEFT_MULTIPLY_64("f16.f16");
#undef WEFT_SUMS
  } else {
#define WEFT_SUMS WEFT_SUMS_8(0), WEFT_SUMS_8(8)
    if constexpr (dtype_of<T> == dtype::bf16)
      WEFT_MULTIPLY_128("bf16.bf16");
    else
      WEFT_MULTIPLY_128("f16.f16");
#undef WEFT_SUMS
  }
#undef WEFT_MULTIPLY
#undef WEFT_MULTIPLY_64
#undef WEFT_MULTIPLY_128
}
#undef WEFT_SUM
#undef WEFT_SUM_OF
#undef WEFT_SUMS_8
#undef WEFT_REGISTERS_64
#undef WEFT_REGISTERS_128

/// c = a b^T, 64 and 8 N rows of D numbers, in tiles whose panels have so many bytes.
template <class T, int D, int N>
__device__ void multiply_tiles(tensor_sums<1, N>& c, std::uint64_t a, int panel, std::uint64_t b, int panel_of_b) {
  multiply_rows<T, false>(c, a, b);
  WEFT_UNROLLED for (int i = 1; i < D / 16; ++i)
      multiply_rows<T, true>(c, further(a, i / 4 * panel + i % 4 * 32), further(b, i / 4 * panel_of_b + i % 4 * 32));
}
/// c += a b, [64, 16 K] in registers and 16 K rows of a tile.
template <class T, int K, int N>
__device__ void add_product_of_tile(tensor_sums<1, N>& c, const tensor_rows<1, K>& a, std::uint64_t b) {
  WEFT_UNROLLED for (int i = 0; i < K; ++i) add_product_of<T>(c, a.at[0][i], further(b, i * 16 * tile_row_bytes));
}

}  // namespace weft::gpu
