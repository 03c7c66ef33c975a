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

/// Columns of one task of few rows: with more than one row a strip of b stays in the second cache for the next row.
template <class T>
constexpr std::int64_t strip_of(std::int64_t m, std::int64_t k) {
  constexpr std::int64_t cached = 384 << 10;
  std::int64_t strip = 1024;
  while (m > 1 && strip > 64 && strip * k * std::int64_t{sizeof(T)} > cached) strip /= 2;
  return strip;
}

/// Few rows times a matrix with contiguous rows or columns, without copying b. Tasks are strips of columns.
template <class T, class Out>
void matmul_rows(team* cores, const matmul_operands<T, Out>& p) {
  using value = accumulate_t<T>;
  scratch rows(static_cast<std::size_t>(p.m * p.k) * sizeof(value));
  value* const x = rows.template as<value>();
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t k = 0; k < p.k; ++k) x[i * p.k + k] = static_cast<value>(p.a[i * p.a_row + k * p.a_column]);
  const std::int64_t strip = strip_of<T>(p.m, p.k), widest = p.n < strip ? p.n : strip;
  team::share(cores, ceil_div(p.n, strip), [&](std::int64_t task) {
    const std::int64_t first = task * strip, columns = p.n - first < strip ? p.n - first : strip;
    scratch sums(static_cast<std::size_t>(widest) * sizeof(value));
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

template <class T, class Out>
scratch_need rows_need(int threads, const matmul_operands<T, Out>& p) {
  const std::int64_t strip = strip_of<T>(p.m, p.k), widest = p.n < strip ? p.n : strip;
  constexpr std::size_t value = sizeof(accumulate_t<T>);
  return loop_need(threads, ceil_div(p.n, strip), scratch_lines(widest, value), scratch_lines(p.m * p.k, value));
}

/// Rows of which a product with a k too long for one pass keeps sums at once.
constexpr std::int64_t rows_of_sums(std::int64_t n) {
  constexpr std::int64_t most_bytes = 8 << 20;
  const std::int64_t at_once = round_up(most_bytes / 4 / n, 32);
  return at_once < 256 ? 256 : at_once;
}
template <class T, class Out>
matmul_operands<T, float> into_sums(const matmul_operands<T, Out>& p, std::int64_t first, std::int64_t rows,
                                    float* sums) {
  return {rows, p.n, p.k, p.a + first * p.a_row, p.a_row, p.a_column, p.b, p.b_row, p.b_column, sums, p.n, false};
}

/// A 16-bit c with a k too long for one pass: sums lie in a float buffer, some rows at a time.
template <class T, class Out>
void matmul_long(team* cores, const matmul_operands<T, Out>& p) {
  const std::int64_t at_once = rows_of_sums(p.n);
  for (std::int64_t first = 0; first < p.m; first += at_once) {
    const std::int64_t rows = p.m - first < at_once ? p.m - first : at_once;
    scratch sums(static_cast<std::size_t>(rows * p.n) * sizeof(float));
    float* const sum = sums.as<float>();
    matmul_blocked<T, float>(cores, kernels_in_use<T, float>(), into_sums(p, first, rows, sum));
    team::share(cores, rows,
                [&](std::int64_t i) { finish_row<T>(sum + i * p.n, p.n, p.c + (first + i) * p.c_row, p.accumulate); });
  }
}

template <class T, class Out>
scratch_need long_need(int threads, const matmul_tile& tile, const matmul_operands<T, Out>& p) {
  const std::int64_t at_once = rows_of_sums(p.n);
  scratch_need all;
  for (const std::int64_t rows : {p.m < at_once ? p.m : at_once, p.m % at_once}) {
    if (rows == 0) continue;
    scratch_need need = blocked_need<T, float>(threads, tile, into_sums(p, 0, rows, nullptr));
    need.caller += scratch_lines(rows * p.n, sizeof(float));
    all.join(need);
  }
  return all;
}

/// How one product is computed.
enum class matmul_way { zeros, library, rows, in_sums, blocked };

template <class T, class Out>
matmul_way way_of(const matmul_tile& tile, const matmul_operands<T, Out>& p) {
  if (p.k == 0) return matmul_way::zeros;
#if defined(WEFT_CPU_CBLAS)
  if constexpr (sizeof(T) >= 4)
    if (cblas_takes(p)) return matmul_way::library;
#endif
  // Up to a few rows, copying b would cost more than it saves; where the tile can read b in place, one row only.
  // Columns are read as fast as memory is (bench_operators; at 8 rows of 768 x 768 both ways took the same time).
  if (p.b_row == 1 && p.m <= 8) return matmul_way::rows;
  if (p.b_column == 1 && p.m <= (tile.direct_b ? 1 : tile.values_per_unit == 1 ? 4 : 2)) return matmul_way::rows;
  if (sizeof(Out) < sizeof(accumulate_t<T>) && p.k > most_units<T, Out> * tile.values_per_unit)
    return matmul_way::in_sums;
  return matmul_way::blocked;
}

template <class T, class Out>
void matmul_one(team* cores, const matmul_operands<T, Out>& p) {
  const auto kernels = kernels_in_use<T, Out>();
  const matmul_way way = way_of(kernels, p);
  if (way == matmul_way::zeros) {
    if (!p.accumulate)
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) p.c[i * p.c_row + j] = Out(0.0f);
    return;
  }
#if defined(WEFT_CPU_CBLAS)
  if constexpr (sizeof(T) >= 4)
    if (way == matmul_way::library) return matmul_cblas(cores, p);
#endif
  if (way == matmul_way::rows) return matmul_rows(cores, p);
  if constexpr (sizeof(Out) < sizeof(accumulate_t<T>))
    if (way == matmul_way::in_sums) return matmul_long(cores, p);
  matmul_blocked(cores, kernels, p);
}
template <class T, class Out>
scratch_need one_need(int threads, const matmul_tile& tile, const matmul_operands<T, Out>& p) {
  switch (way_of(tile, p)) {
    case matmul_way::rows:
      return rows_need(threads, p);
    case matmul_way::in_sums:
      return long_need(threads, tile, p);
    case matmul_way::blocked:
      return blocked_need(threads, tile, p);
    default:
      return {};
  }
}

/// How products of a batch are shared: each by the team, or `each` of them a task, or all by the caller alone.
struct matmul_sharing {
  std::int64_t batch, m;  // what is multiplied
  enum { by_caller, by_task, by_team } how = by_caller;
  std::int64_t each = 1;
};
WEFT_LINKED matmul_sharing sharing_of(int threads, const matmul_shape& shape, strides sa, strides sb, strides sc) {
  matmul_sharing s{shape.batch, shape.m};
  // One b for the whole batch and rows that continue from matrix to matrix: one taller product.
  if (s.batch > 1 && sb.batch == 0 && sa.batch == s.m * sa.row && sc.batch == s.m * sc.row) {
    s.m *= s.batch;
    s.batch = 1;
  }
  // Waking a thread costs microseconds: a product below half a million steps runs on the caller alone.
  constexpr std::int64_t worth_sharing = 1 << 19;
  const double steps = static_cast<double>(s.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k + 1);
  const double all = steps * static_cast<double>(s.batch);
  if (threads == 1 || all < worth_sharing) return s;
  s.how = matmul_sharing::by_team;
  if (s.batch < 4 * threads && (s.batch < threads || steps >= 4 * worth_sharing)) return s;
  s.how = matmul_sharing::by_task;
  const std::int64_t most = ceil_div(s.batch, 4 * threads);
  const std::int64_t wanted =
      steps >= worth_sharing / 4 ? 1 : ceil_div(worth_sharing / 4, static_cast<std::int64_t>(steps));
  s.each = wanted < most ? wanted : most;
  return s;
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
  if (shape.batch == 0 || shape.m == 0 || shape.n == 0) return;
  const detail::matmul_sharing share = detail::sharing_of(cores.size(), shape, sa, sb, sc);
  const std::int64_t batch = share.batch, m = share.m, each = share.each;
  const detail::using_stack own(cores.stack());
  const auto one = [&](team* on, std::int64_t i) {
    detail::matmul_one<T, Out>(on, {m, shape.n, shape.k, a + i * sa.batch, sa.row, sa.column, b + i * sb.batch, sb.row,
                                    sb.column, c + i * sc.batch, sc.row, accumulate});
  };
  if (share.how == detail::matmul_sharing::by_task) {
    cores.parallel_for(detail::ceil_div(batch, each), [&](std::int64_t task) {
      for (std::int64_t i = task * each; i < batch && i < (task + 1) * each; ++i) one(nullptr, i);
    });
  } else {
    for (std::int64_t i = 0; i < batch; ++i) one(share.how == detail::matmul_sharing::by_team ? &cores : nullptr, i);
  }
}
/// What that call takes of scratch on a team of so many threads, with the kernels of this machine.
template <class T, class Out>
scratch_need matmul_scratch(int threads, const matmul_shape& shape, const T* a, strides sa, const T* b, strides sb,
                            Out* c, strides sc, bool accumulate) {
  if (shape.batch == 0 || shape.m == 0 || shape.n == 0) return {};
  const detail::matmul_sharing share = detail::sharing_of(threads, shape, sa, sb, sc);
  const bool by_team = share.how == detail::matmul_sharing::by_team;
  const scratch_need one = detail::one_need<T, Out>(
      by_team ? threads : 1, detail::tile_in_use<T>(),
      {share.m, shape.n, shape.k, a, sa.row, sa.column, b, sb.row, sb.column, c, sc.row, accumulate});
  if (share.how != detail::matmul_sharing::by_task) return one;
  return detail::loop_need(threads, detail::ceil_div(share.batch, share.each), one.caller);
}

}  // namespace weft::cpu
