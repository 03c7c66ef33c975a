// RMSNorm (Zhang & Sennrich 2019) over rows, and its backward.
// Invariant: the gradient of the weight is summed over fixed groups of rows, then over the groups by a tree.
#pragma once

#include <cmath>
#include <cstring>

#include <weft/backend/cpu/reduce.hpp>

#define WEFT_KERNELS <weft/backend/cpu/rms_norm.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
accumulate_t<T> row_sum_of_squares(int64 n, const T* x) {
  WEFT_DISPATCH(row_sum_of_squares, n, x);
}
template <class T>
void rms_norm_row(int64 n, const T* x, const T* weight, accumulate_t<T> r, T* y) {
  WEFT_DISPATCH(rms_norm_row, n, x, weight, r, y);
}
template <class T>
void rms_norm_row_backward(int64 n, const T* x, const T* weight, const T* dy, accumulate_t<T> r, accumulate_t<T>* part,
                           T* dx, bool add) {
  WEFT_DISPATCH(rms_norm_row_backward, n, x, weight, dy, r, part, dx, add);
}

template <class T>
void rms_norm_rows(int64 rows, int64 width, double eps, const T* x, const T* weight, T* y, accumulate_t<T>* rstd) {
  using A = accumulate_t<T>;
  for (int64 row = 0; row < rows; ++row, x += width, y += width) {
    const A squares = row_sum_of_squares(width, x);
    const A r = 1 / std::sqrt(squares / static_cast<A>(width) + static_cast<A>(eps));
    rms_norm_row(width, x, weight, r, y);
    if (rstd) rstd[row] = r;
  }
}

/// Rows whose gradients of a weight are summed together, and how many such groups there are.
constexpr int64 rows_of_group(int64 rows) { return rows <= 64 * 32 ? 32 : 64; }
constexpr int64 row_groups(int64 rows) { return blocks_of(rows, rows_of_group(rows)); }

}  // namespace detail

/// y = x * rstd * weight, rstd[row] = 1 / sqrt(mean(x^2) + eps); rstd may be null, y may be x.
/// x, y [rows, width], weight [width], rstd [rows]
template <class T>
void rms_norm(team& workers, int64 rows, int64 width, double eps, const T* x, const T* weight, T* y,
              accumulate_t<T>* rstd) {
  detail::for_rows(workers, rows, width, [=](int64 begin, int64 end) {
    detail::rms_norm_rows(end - begin, width, eps, x + begin * width, weight, y + begin * width,
                          rstd ? rstd + begin : nullptr);
  });
}

/// dx (+)= rstd * (w*dy - x * rstd^2 * mean(w*dy*x)), dweight (+)= sum over rows of dy * x * rstd; each may be null,
/// and weight where dx is. Not adding, dx may be dy. G, the type of dweight, is T or float.
template <class T, class G>
void rms_norm_backward(team& workers, int64 rows, int64 width, const T* x, const T* weight, const accumulate_t<T>* rstd,
                       const T* dy, T* dx, bool add_dx, G* dweight, bool add_dweight) {
  using A = accumulate_t<T>;
  static_assert(std::is_same_v<G, T> || std::is_same_v<G, A>, "dweight has the type of weight or the accumulate type");
  const int64 group = detail::rows_of_group(rows), groups = detail::row_groups(rows);
  const detail::using_stack own(workers.stack());
  const scratch memory(static_cast<std::size_t>(groups * width) * sizeof(A));
  A* const parts = memory.as<A>();
  detail::for_blocks(workers, rows, group, [=](int64 begin, int64 end) {
    A* const part = parts + begin / group * width;
    std::memset(part, 0, static_cast<std::size_t>(width) * sizeof(A));
    for (int64 row = begin; row < end; ++row) {
      const int64 at = row * width;
      detail::rms_norm_row_backward(width, x + at, weight, dy + at, rstd[row], part, dx ? dx + at : nullptr, add_dx);
    }
  });
  if (dweight) detail::sum_rows(workers, groups, width, static_cast<const A*>(parts), dweight, add_dweight);
}
/// What that call takes of scratch on a team of so many threads; here and below.
template <class T, class G>
scratch_need rms_norm_backward_scratch(int /*threads*/, int64 rows, int64 width, const T*, const T*,
                                       const accumulate_t<T>*, const T*, const T*, bool, G*, bool) {
  return {detail::scratch_lines(detail::row_groups(rows) * width, sizeof(accumulate_t<T>))};
}

}  // namespace weft::cpu
