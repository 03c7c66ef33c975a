// LayerNorm (Ba, Kiros & Hinton 2016) over rows, and its backward.
// Invariant: the mean is kept in double, and the variance is the mean of squared distances from it, taken in a second
// pass, so a large mean costs no digits; gradients of weight and bias are summed over fixed groups of rows, then over
// the groups by a tree.
#pragma once

#include <weft/backend/cpu/rms_norm.hpp>

#define WEFT_KERNELS <weft/backend/cpu/layer_norm.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
void layer_norm_rows(int64 rows, int64 n, double eps, const T* x, const T* weight, const T* bias, T* y, double* mean,
                     accumulate_t<T>* rstd) {
  WEFT_DISPATCH(layer_norm_rows, rows, n, eps, x, weight, bias, y, mean, rstd);
}
template <class T>
void layer_norm_row_backward(int64 n, const T* x, const T* weight, const T* dy, accumulate_t<T> mean,
                             accumulate_t<T> rest, accumulate_t<T> r, accumulate_t<T>* weight_part,
                             accumulate_t<T>* bias_part, T* dx, bool add) {
  WEFT_DISPATCH(layer_norm_row_backward, n, x, weight, dy, mean, rest, r, weight_part, bias_part, dx, add);
}
/// What a mean loses when it is rounded.
template <class A>
A rest_of(double mean) {
  return static_cast<A>(mean - static_cast<double>(static_cast<A>(mean)));
}

}  // namespace detail

/// y = (x - mean) * rstd * weight + bias, rstd[row] = 1 / sqrt(mean((x - mean)^2) + eps); mean and rstd may both be
/// null, y may be x.  // x, y [rows, width], weight, bias [width], mean, rstd [rows]
template <class T>
void layer_norm(team& workers, int64 rows, int64 width, double eps, const T* x, const T* weight, const T* bias, T* y,
                double* mean, accumulate_t<T>* rstd) {
  detail::for_rows(workers, rows, width, [=](int64 begin, int64 end) {
    detail::layer_norm_rows(end - begin, width, eps, x + begin * width, weight, bias, y + begin * width,
                            mean ? mean + begin : nullptr, rstd ? rstd + begin : nullptr);
  });
}

/// With u = (x - mean) * rstd and g = w*dy: dx (+)= rstd * (g - mean(g) - u * mean(g*u)), dweight (+)= sum over rows of
/// dy * u, dbias (+)= sum over rows of dy; each may be null, and weight where dx is. Not adding, dx may be dy. G, the
/// type of dweight and dbias, is T or the accumulate type.
template <class T, class G>
void layer_norm_backward(team& workers, int64 rows, int64 width, const T* x, const T* weight, const double* mean,
                         const accumulate_t<T>* rstd, const T* dy, T* dx, bool add_dx, G* dweight, bool add_dweight,
                         G* dbias, bool add_dbias) {
  using A = accumulate_t<T>;
  static_assert(std::is_same_v<G, T> || std::is_same_v<G, A>,
                "dweight and dbias have the type of weight or the accumulate type");
  const int64 group = detail::rows_of_group(rows), groups = detail::row_groups(rows);
  const detail::using_stack own(workers.stack());
  const scratch memory(static_cast<std::size_t>(2 * groups * width) * sizeof(A));
  A* const parts = memory.as<A>();  // of the weight [groups, width], then of the bias
  detail::for_blocks(workers, rows, group, [=](int64 begin, int64 end) {
    A* const of_weight = parts + begin / group * width;
    A* const of_bias = of_weight + groups * width;
    std::memset(of_weight, 0, static_cast<std::size_t>(width) * sizeof(A));
    std::memset(of_bias, 0, static_cast<std::size_t>(width) * sizeof(A));
    for (int64 row = begin; row < end; ++row) {
      const int64 at = row * width;
      detail::layer_norm_row_backward(width, x + at, weight, dy + at, static_cast<A>(mean[row]),
                                      detail::rest_of<A>(mean[row]), rstd[row], of_weight, of_bias,
                                      dx ? dx + at : nullptr, add_dx);
    }
  });
  if (dweight) detail::sum_rows(workers, groups, width, static_cast<const A*>(parts), dweight, add_dweight);
  if (dbias) detail::sum_rows(workers, groups, width, static_cast<const A*>(parts + groups * width), dbias, add_dbias);
}
template <class T, class G>
scratch_need layer_norm_backward_scratch(int /*threads*/, int64 rows, int64 width, const T*, const T*, const double*,
                                         const accumulate_t<T>*, const T*, const T*, bool, G*, bool, G*, bool) {
  return {detail::scratch_lines(2 * detail::row_groups(rows) * width, sizeof(accumulate_t<T>))};
}

}  // namespace weft::cpu
