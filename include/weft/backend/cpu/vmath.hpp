// Functions of vectors: exp, log, tanh, sigmoid, sums over lanes; in float their own code, in double the C library's.
// Invariant: for each target the same source; float results lie within 2 units in the last place of the exact value.
#pragma once

#include <weft/backend/cpu/common.hpp>
#include <weft/backend/cpu/simd.hpp>

/// Unrolls the short loop that follows, so that an array of vectors can live in registers.
#if defined(__CUDACC__)
#define WEFT_UNROLL  // its front end knows no such pragma for the host
#elif defined(__clang__)
#define WEFT_UNROLL _Pragma("unroll")
#else
#define WEFT_UNROLL _Pragma("GCC unroll 16")
#endif

#define WEFT_KERNELS <weft/backend/cpu/vmath.inl>
#include <weft/backend/cpu/each_target.inl>
