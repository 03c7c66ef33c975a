// Batched matrix products on strided operands.
// Invariant: c does not depend on the size of the team; sums are in float (double for double), in order of k.
#pragma once

#include <cstdint>

#include <weft/backend/concept.hpp>
#include <weft/backend/cpu/cblas.hpp>
#include <weft/backend/cpu/matmul/blocked.hpp>
#include <weft/backend/cpu/matmul/kernels.hpp>
#include <weft/backend/cpu/team.hpp>
#include <weft/core/dtype.hpp>

namespace weft::cpu {

namespace detail {

/// Few rows times a matrix with contiguous rows or columns, without copying b. Tasks are strips of columns; with more
/// than one row a strip of b stays in the second cache for the next row.
template <class T, class Out>
void matmul_rows(team* cores, const matmul_operands<T, Out>& p) {
  using value = accumulate_t<T>;
  scratch rows(static_cast<std::size_t>(p.m * p.k) * sizeof(value));
  value* const x = rows.template as<value>();
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t k = 0; k < p.k; ++k) x[i * p.k + k] = static_cast<value>(p.a[i * p.a_row + k * p.a_column]);
  constexpr std::int64_t cached = 384 << 10;
  std::int64_t strip = 1024;
  while (p.m > 1 && strip > 64 && strip * p.k * std::int64_t{sizeof(T)} > cached) strip /= 2;
  team::share(cores, ceil_div(p.n, strip), [&](std::int64_t task) {
    const std::int64_t first = task * strip, columns = p.n - first < strip ? p.n - first : strip;
    scratch sums(static_cast<std::size_t>(columns) * sizeof(value));
    value* const y = sums.template as<value>();
    const T* b = p.b + first * p.b_column;
    for (std::int64_t i = 0; i < p.m; ++i) {
      if (p.b_column == 1)
        row_times_rows(x + i * p.k, b, p.b_row, columns, p.k, y);
      else
        row_times_columns(x + i * p.k, b, p.b_column, columns, p.k, y);
      finish_row<T>(y, columns, p.c + i * p.c_row + first, p.accumulate);
    }
  });
}

/// A 16-bit c with a k too long for one pass: sums lie in a float buffer, some rows at a time.
template <class T, class Out>
void matmul_long(team* cores, const matmul_operands<T, Out>& p) {
  constexpr std::int64_t most_bytes = 8 << 20;
  std::int64_t at_once = round_up(most_bytes / 4 / p.n, 32);
  if (at_once < 256) at_once = 256;
  for (std::int64_t first = 0; first < p.m; first += at_once) {
    const std::int64_t rows = p.m - first < at_once ? p.m - first : at_once;
    scratch sums(static_cast<std::size_t>(rows * p.n) * sizeof(float));
    float* const sum = sums.as<float>();
    matmul_blocked<T, float>(
        cores, kernels_in_use<T, float>(),
        {rows, p.n, p.k, p.a + first * p.a_row, p.a_row, p.a_column, p.b, p.b_row, p.b_column, sum, p.n, false});
    team::share(cores, rows,
                [&](std::int64_t i) { finish_row<T>(sum + i * p.n, p.n, p.c + (first + i) * p.c_row, p.accumulate); });
  }
}

template <class T, class Out>
void matmul_one(team* cores, const matmul_operands<T, Out>& p) {
  if (p.k == 0) {
    if (!p.accumulate)
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) p.c[i * p.c_row + j] = Out(0.0f);
    return;
  }
#if defined(WEFT_CPU_CBLAS)
  if constexpr (sizeof(T) >= 4)
    if (matmul_cblas(cores, p)) return;
#endif
  // Up to a few rows, copying b would cost more than it saves; where the tile can read b in place, one row only.
  const auto kernels = kernels_in_use<T, Out>();
  const bool b_contiguous = p.b_column == 1 || p.b_row == 1, in_place = kernels.direct_b && p.b_column == 1;
  if (b_contiguous && p.m <= (in_place ? 1 : kernels.values_per_unit == 1 ? 4 : 2)) return matmul_rows(cores, p);
  if constexpr (sizeof(Out) < sizeof(accumulate_t<T>))
    if (p.k > most_units<T, Out> * kernels.values_per_unit) return matmul_long(cores, p);
  matmul_blocked(cores, kernels, p);
}

}  // namespace detail

/// c[b,i,j] = sum over k of a[b,i,k] * b[b,k,j], or += if `accumulate`. Operands a and b may have any strides (row or
/// column stride 1 is fast: all four transposes); c has column stride 1 and does not overlap a or b. k = 0 writes
/// zeros, or leaves c if accumulating. T is double, float, bf16 or fp16; Out is T, or float for a 16-bit T. A 16-bit c
/// is rounded once, after the whole of k. Throws weft::failure for a negative size or a c that is not contiguous in
/// rows.
template <class T, class Out>
void matmul(team& cores, const matmul_shape& shape, const T* a, strides sa, const T* b, strides sb, Out* c, strides sc,
            bool accumulate) {
  static_assert(floating<T> && (dtype_of<Out> == dtype_of<T> || (sizeof(T) == 2 && dtype_of<Out> == dtype::f32)),
                "matmul: T is double, float, bf16 or fp16; Out is T, or float for a 16-bit T.");
  require(sc.column == 1, "matmul: the column stride of c must be 1, not ", sc.column, "; copy c or swap a and b.");
  require(shape.batch >= 0 && shape.m >= 0 && shape.n >= 0 && shape.k >= 0,
          "matmul: sizes must not be negative: batch ", shape.batch, ", m ", shape.m, ", n ", shape.n, ", k ", shape.k,
          ".");
  std::int64_t batch = shape.batch, m = shape.m;
  if (batch == 0 || m == 0 || shape.n == 0) return;
  // One b for the whole batch and rows that continue from matrix to matrix: one taller product.
  if (batch > 1 && sb.batch == 0 && sa.batch == m * sa.row && sc.batch == m * sc.row) {
    m *= batch;
    batch = 1;
  }
  const auto one = [&](team* on, std::int64_t i) {
    detail::matmul_one<T, Out>(on, {m, shape.n, shape.k, a + i * sa.batch, sa.row, sa.column, b + i * sb.batch, sb.row,
                                    sb.column, c + i * sc.batch, sc.row, accumulate});
  };
  // Waking a thread costs microseconds: a product below half a million steps runs on the caller alone.
  constexpr std::int64_t worth_sharing = 1 << 19;
  const std::int64_t steps = m * shape.n * (shape.k + 1);
  const int size = cores.size();
  if (size == 1 || steps * batch < worth_sharing) {
    for (std::int64_t i = 0; i < batch; ++i) one(nullptr, i);
  } else if (batch >= 4 * size || (batch >= size && steps < 4 * worth_sharing)) {
    const std::int64_t most = detail::ceil_div(batch, 4 * size), wanted = detail::ceil_div(worth_sharing / 4, steps);
    const std::int64_t each = wanted < most ? wanted : most;
    cores.parallel_for(detail::ceil_div(batch, each), [&](std::int64_t task) {
      for (std::int64_t i = task * each; i < batch && i < (task + 1) * each; ++i) one(nullptr, i);
    });
  } else {
    for (std::int64_t i = 0; i < batch; ++i) one(&cores, i);
  }
}

}  // namespace weft::cpu
