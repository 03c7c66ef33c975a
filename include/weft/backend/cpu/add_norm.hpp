// The sum of a residual stream and a block's output, and a norm of it: a row is normalised while it is in the cache.
// Invariant: bits are those of the two kernels by themselves, for the sum is rounded to its type before it is read.
#pragma once

#include <weft/backend/cpu/elementwise.hpp>
#include <weft/backend/cpu/layer_norm.hpp>

namespace weft::cpu {

/// h = x + r, y = rms_norm(h); rstd may be null, h may be x or r.  // x, r, h, y [rows, width], weight [width]
template <class T>
void add_rms_norm(team& workers, int64 rows, int64 width, double eps, const T* x, const T* r, const T* weight, T* h,
                  T* y, accumulate_t<T>* rstd) {
  detail::for_rows(workers, rows, width, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const int64 at = row * width;
      detail::binary_block(binary::add, width, x + at, 1, r + at, 1, h + at);
      detail::rms_norm_rows(1, width, eps, h + at, weight, y + at, rstd ? rstd + row : nullptr);
    }
  });
}

/// h = x + r, y = layer_norm(h); mean and rstd may both be null, h may be x or r.  // as above; bias [width]
template <class T>
void add_layer_norm(team& workers, int64 rows, int64 width, double eps, const T* x, const T* r, const T* weight,
                    const T* bias, T* h, T* y, double* mean, accumulate_t<T>* rstd) {
  detail::for_rows(workers, rows, width, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const int64 at = row * width;
      detail::binary_block(binary::add, width, x + at, 1, r + at, 1, h + at);
      detail::layer_norm_rows(1, width, eps, h + at, weight, bias, y + at, mean ? mean + row : nullptr,
                              rstd ? rstd + row : nullptr);
    }
  });
}

}  // namespace weft::cpu
