// Opt-in (WEFT_CPU_CBLAS): products of float and double by the CBLAS that the program links with.
// Invariant: rows are cut into blocks of a fixed size, so the result does not depend on the team.
//
// The team's threads call the library side by side, so it should run each call on one thread (OPENBLAS_NUM_THREADS=1,
// MKL_NUM_THREADS=1): a library with threads of its own would multiply them by the ranks.
#pragma once

#include <cstdint>

#include <weft/backend/cpu/matmul/blocked.hpp>

#if defined(WEFT_CPU_CBLAS)
#include <cblas.h>

namespace weft::cpu::detail {

/// A matrix as CBLAS takes it: stored by rows, or by columns (transposed).
struct cblas_layout {
  bool fits = false;
  CBLAS_TRANSPOSE transposed = CblasNoTrans;
  int leading = 0;
};

inline cblas_layout layout_for_cblas(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  constexpr std::int64_t most = 0x7fffffff;
  if (rows > most || columns > most || row > most || column > most) return {};
  if (column == 1 && row >= columns) return {true, CblasNoTrans, static_cast<int>(row)};
  if (row == 1 && column >= rows) return {true, CblasTrans, static_cast<int>(column)};
  return {};
}

/// Whether CBLAS can express these strides.
template <class T>
bool cblas_takes(const matmul_operands<T, T>& p) {
  const cblas_layout c = layout_for_cblas(p.m, p.n, p.c_row, 1);
  return layout_for_cblas(p.m, p.k, p.a_row, p.a_column).fits && layout_for_cblas(p.k, p.n, p.b_row, p.b_column).fits &&
         c.fits && c.transposed == CblasNoTrans;
}

/// c (+)= a b by CBLAS, of operands that it takes.
template <class T>
void matmul_cblas(team* cores, const matmul_operands<T, T>& p) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  const cblas_layout a = layout_for_cblas(p.m, p.k, p.a_row, p.a_column);
  const cblas_layout b = layout_for_cblas(p.k, p.n, p.b_row, p.b_column);
  const cblas_layout c = layout_for_cblas(p.m, p.n, p.c_row, 1);
  constexpr std::int64_t block = 512;
  team::share(cores, ceil_div(p.m, block), [&](std::int64_t task) {
    const std::int64_t first = task * block, rows = p.m - first < block ? p.m - first : block;
    const auto call = [&](auto gemm, T one, T old) {
      gemm(CblasRowMajor, a.transposed, b.transposed, static_cast<int>(rows), static_cast<int>(p.n),
           static_cast<int>(p.k), one, p.a + first * p.a_row, a.leading, p.b, b.leading, old, p.c + first * p.c_row,
           c.leading);
    };
    if constexpr (sizeof(T) == 4)
      call(cblas_sgemm, 1.0f, p.accumulate ? 1.0f : 0.0f);
    else
      call(cblas_dgemm, 1.0, p.accumulate ? 1.0 : 0.0);
  });
}

}  // namespace weft::cpu::detail
#endif
