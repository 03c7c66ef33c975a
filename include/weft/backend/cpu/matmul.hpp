// Batched matrix products on strided operands.
// Invariant: c does not depend on the size of the team; sums are in float (double for double), in order of k.
#pragma once

#include <cstdint>

#include <weft/backend/concept.hpp>
#include <weft/backend/cpu/team.hpp>
#include <weft/core/dtype.hpp>

namespace weft::cpu {

/// c[b,i,j] = sum over k of a[b,i,k] * b[b,k,j], or += if `accumulate`. Operands a and b may have any strides (row or
/// column stride 1 is fast: all four transposes); c has column stride 1. k = 0 writes zeros, or leaves c if accumulating.
/// T is double, float, bf16 or fp16; Out is T, or float for a 16-bit T. A 16-bit c is rounded once.
template <class T, class Out>
void matmul(team& cores, const matmul_shape& shape, const T* a, strides sa, const T* b, strides sb, Out* c, strides sc,
            bool accumulate) {
  require(sc.column == 1, "matmul: the column stride of c must be 1, not ", sc.column, ".");
  cores.parallel_for(shape.batch * shape.m, [&](std::int64_t task) {
    const std::int64_t batch = task / shape.m, i = task % shape.m;
    for (std::int64_t j = 0; j < shape.n; ++j) {
      Out& out = c[batch * sc.batch + i * sc.row + j];
      accumulate_t<T> sum = accumulate ? static_cast<accumulate_t<T>>(out) : accumulate_t<T>(0);
      for (std::int64_t k = 0; k < shape.k; ++k)
        sum += static_cast<accumulate_t<T>>(a[batch * sa.batch + i * sa.row + k * sa.column]) *
               static_cast<accumulate_t<T>>(b[batch * sb.batch + k * sb.row + j * sb.column]);
      out = static_cast<Out>(sum);
    }
  });
}

}  // namespace weft::cpu
