// Kernels whose body the caller brings: loops over strided arrays of one shape, which formulas of a user's own run in,
// and what is done once. Invariant: every element is met once, each in one task.
#pragma once

#include <weft/backend/cpu/index.hpp>

namespace weft::cpu {

/// Calls f(n, offsets, strides) for runs of n elements: element i of a run lies at offsets[a] + i * strides[a] of array
/// a. Over `ndim` <= 8 extents; strides in elements, 0 where broadcast.
template <std::size_t Arrays, class F>
void each_row(team& workers, int ndim, const int64* extents, const std::array<const int64*, Arrays>& arrays, F f) {
  for (int d = 0; d < ndim; ++d)
    if (extents[d] == 0) return;
  const detail::loop<Arrays> nest(ndim, extents, arrays);
  std::array<int64, Arrays> strides{};
  for (std::size_t a = 0; a < Arrays; ++a) strides[a] = nest.inner_stride(a);
  if (nest.outer() == 1)
    return detail::for_blocks(workers, nest.inner(), detail::block_elements, [&](int64 begin, int64 end) {
      std::array<int64, Arrays> at{};
      for (std::size_t a = 0; a < Arrays; ++a) at[a] = begin * strides[a];
      f(end - begin, at, strides);
    });
  detail::for_rows(workers, nest.outer(), nest.inner(), [&](int64 begin, int64 end) {
    nest.each(begin, end, [&](const std::array<int64, Arrays>& at) { f(nest.inner(), at, strides); });
  });
}

/// Calls f(offsets) for every element, which stands for a line of `width` elements: so many are worth a task of their
/// own sooner. Otherwise as each_row.
template <std::size_t Arrays, class F>
void each_line(team& workers, int ndim, const int64* extents, const std::array<const int64*, Arrays>& arrays,
               int64 width, F f) {
  for (int d = 0; d < ndim; ++d)
    if (extents[d] == 0) return;
  const detail::loop<Arrays> nest(ndim, extents, arrays);
  const int64 inner = nest.inner();
  detail::for_rows(workers, nest.outer() * inner, width, [&](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) {
      std::array<int64, Arrays> at = nest.offsets(i / inner);
      for (std::size_t a = 0; a < Arrays; ++a) at[a] += i % inner * nest.inner_stride(a);
      f(at);
    }
  });
}

/// Calls f(), once: what is computed of a few numbers. f holds what it reads and writes by value, as pointers.
template <class F>
void once(team&, const F& f) {
  f();
}

}  // namespace weft::cpu
