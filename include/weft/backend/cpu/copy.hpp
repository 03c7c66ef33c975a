// Strided copies: transposes, slices, padding.
// Invariant: element i... of y becomes (or gains) element i... of x; x and y do not overlap.
#pragma once

#include <weft/backend/cpu/index.hpp>

namespace weft::cpu {

/// y[i...] (+)= x[i...] over `rank` <= 8 extents; strides in elements.
template <class T>
void copy(team& workers, int rank, const int64* extents, const T* x, const int64* x_strides, T* y,
          const int64* y_strides, bool add) {
  const detail::loop<2> nest(rank, extents, {x_strides, y_strides});
  const int64 inner = nest.inner();
  const int64 sx = nest.inner_stride(0), sy = nest.inner_stride(1);
  detail::for_rows(workers, nest.outer(), inner, [&](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const auto at = nest.offsets(row);
      const T* px = x + at[0];
      T* py = y + at[1];
      for (int64 i = 0; i < inner; ++i) {
        if (add) {
          detail::put(py[i * sy], detail::widen(px[i * sx]), true);
        } else {
          py[i * sy] = px[i * sx];
        }
      }
    }
  });
}

}  // namespace weft::cpu
