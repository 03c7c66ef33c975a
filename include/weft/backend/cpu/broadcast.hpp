// Binary functions of two arrays that are broadcast to one shape.
// Invariant: a stride of 0 repeats an element; y is contiguous, row-major and written once.
#pragma once

#include <weft/backend/cpu/elementwise.hpp>
#include <weft/backend/cpu/index.hpp>

namespace weft::cpu {

/// y[i...] = f(a[i...], b[i...]) over `ndim` <= 8 extents; strides in elements, 0 where broadcast.
template <class T>
void apply(team& workers, binary f, int ndim, const int64* extents, const T* a, const int64* a_strides, const T* b,
           const int64* b_strides, T* y) {
  const detail::loop<2> nest(ndim, extents, {a_strides, b_strides});
  const int64 inner = nest.inner();
  const int64 sa = nest.inner_stride(0), sb = nest.inner_stride(1);
  detail::for_rows(workers, nest.outer(), inner, [&](int64 begin, int64 end) {
    T* row = y + begin * inner;
    nest.each(begin, end, [&](const std::array<int64, 2>& at) {
      detail::binary_block(f, inner, a + at[0], sa, b + at[1], sb, row);
      row += inner;
    });
  });
}

}  // namespace weft::cpu
