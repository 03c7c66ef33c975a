// Functions of vectors: exp, log, tanh, sigmoid, sums over lanes; in float their own code, in double the C library's.
// Invariant: for each target the same source; float results lie within 2 units in the last place of the exact value.
#pragma once

#include <weft/backend/cpu/common.hpp>
#include <weft/backend/cpu/simd.hpp>

#define WEFT_KERNELS <weft/backend/cpu/vmath.inl>
#include <weft/backend/cpu/each_target.hpp>
