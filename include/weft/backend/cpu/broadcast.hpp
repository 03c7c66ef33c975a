// Binary functions of two arrays that are broadcast to one shape.
// Invariant: a stride of 0 repeats an element; y is contiguous, row-major and written once.
#pragma once

#include <weft/backend/cpu/elementwise.hpp>
#include <weft/backend/cpu/index.hpp>

namespace weft::cpu {

/// y[i...] = f(a[i...], b[i...]) over `rank` <= 8 extents; strides in elements, 0 where broadcast.
template <class T>
void apply(team& workers, binary f, int rank, const int64* extents, const T* a, const int64* a_strides, const T* b,
           const int64* b_strides, T* y) {
  const detail::loop<2> nest(rank, extents, {a_strides, b_strides});
  const int64 inner = nest.inner();
  const int64 sa = nest.inner_stride(0), sb = nest.inner_stride(1);
  detail::for_rows(workers, nest.outer(), inner, [&](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const auto at = nest.offsets(row);
      const T* pa = a + at[0];
      const T* pb = b + at[1];
      T* py = y + row * inner;
      for (int64 i = 0; i < inner; ++i)
        py[i] = detail::narrow<T>(detail::evaluate(f, detail::widen(pa[i * sa]), detail::widen(pb[i * sb])));
    }
  });
}

}  // namespace weft::cpu
