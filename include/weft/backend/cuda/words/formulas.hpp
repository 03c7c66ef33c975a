// The words of what a caller brings: loops over strided arrays of one shape. Invariant: what is called has all that it
// reads and writes by value, and can be called where the kernels run.
#pragma once

#include <weft/backend/cuda/kernels/each_element.hpp>
#include <weft/backend/cuda/queue.hpp>

namespace weft::gpu {

template <class Queue>
struct formula_words {
  using queue = Queue;

  /// f(n, offsets, strides) for runs of n elements, one element each here, over `ndim` <= 8 extents; strides in
  /// elements, 0 where broadcast.
  template <std::size_t Arrays, class F>
  static void each_row(queue& q, int ndim, const std::int64_t* extents,
                       const std::array<const std::int64_t*, Arrays>& strides, const F& f) {
    start<false>(q, ndim, extents, strides, f);
  }
  /// f(offsets) for every element, which stands for a line of `width` elements: a line a thread.
  template <std::size_t Arrays, class F>
  static void each_line(queue& q, int ndim, const std::int64_t* extents,
                        const std::array<const std::int64_t*, Arrays>& strides, std::int64_t /*width*/, const F& f) {
    start<true>(q, ndim, extents, strides, f);
  }

 private:
  template <bool Lines, std::size_t Arrays, class F>
  static void start(queue& q, int ndim, const std::int64_t* extents,
                    const std::array<const std::int64_t*, Arrays>& strides, const F& f) {
    using loop = strided_loop<static_cast<int>(Arrays)>;
    array_of<const int64*, static_cast<int>(Arrays)> of = {};
    for (std::size_t a = 0; a < Arrays; ++a) of[a] = strides[a];
    const each_element_kernel<Arrays, Lines, F> kernel{loop::over(ndim, extents, of, 1, false), f};
    over_elements<std::int64_t>(q, kernel.loop.n, kernel, 1);
  }
};

}  // namespace weft::gpu
