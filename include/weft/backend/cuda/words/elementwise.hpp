// The words of one element: functions, arithmetic with broadcasting, scaling, the gated unit.
// Invariant: which kernel runs on which grid is decided here, in plain C++.
#pragma once

#include <weft/backend/cuda/kernels/functions.hpp>
#include <weft/backend/cuda/kernels/swiglu.hpp>
#include <weft/backend/cuda/queue.hpp>

namespace weft::gpu {

template <class Queue>
struct elementwise_words {
  using queue = Queue;

  /// y = F(x); dx (+)= F'(x) * dy.
  template <unary F, class T>
  static void apply(queue& q, std::int64_t n, const T* x, T* y) {
    over_elements<T>(q, n, unary_kernel<F, T>{n, x, y, aligned_for_packs(x, y)});
  }
  template <unary F, class T>
  static void apply_backward(queue& q, std::int64_t n, const T* x, const T* dy, T* dx, bool add) {
    over_elements<T>(q, n, unary_backward_kernel<F, T>{n, x, dy, dx, add, aligned_for_packs(x, dy, dx)});
  }
  /// y = f(a, b), all of n elements.
  template <class T>
  static void apply(queue& q, binary f, std::int64_t n, const T* a, const T* b, T* y) {
    over_elements<T>(q, n, binary_kernel<T>{f, n, a, b, y, aligned_for_packs(a, b, y)});
  }
  /// The same over `ndim` extents; strides in elements, 0 where broadcast, and y contiguous.
  template <class T>
  static void apply(queue& q, binary f, int ndim, const std::int64_t* extents, const T* a,
                    const std::int64_t* a_strides, const T* b, const std::int64_t* b_strides, T* y) {
    const auto loop =
        strided_loop<2>::over(ndim, extents, {a_strides, b_strides}, pack_size<T>, aligned_for_packs(a, b, y));
    over_elements<T>(q, loop.n, broadcast_kernel<T>{f, loop, a, b, y}, 1);
  }
  /// y (+)= factor * x.
  template <class T>
  static void scale(queue& q, std::int64_t n, const kernel_number& factor, const T* x, T* y, bool add) {
    over_elements<T>(q, n, scale_kernel<T>{n, factor, x, y, add, aligned_for_packs(x, y)});
  }
  /// y = silu(gate) * up.
  template <class T>
  static void swiglu(queue& q, std::int64_t n, const T* gate, const T* up, T* y) {
    over_elements<T>(q, n, swiglu_kernel<T>{n, gate, up, y, aligned_for_packs(gate, up, y)});
  }
  /// dgate (+)= dy * up * silu'(gate), dup (+)= dy * silu(gate).
  template <class T>
  static void swiglu_backward(queue& q, std::int64_t n, const T* gate, const T* up, const T* dy, T* dgate,
                              bool add_gate, T* dup, bool add_up) {
    const bool packed = aligned_for_packs(gate, up, dy, dgate, dup);
    over_elements<T>(q, n, swiglu_backward_kernel<T>{n, gate, up, dy, dgate, add_gate, dup, add_up, packed});
  }
};

}  // namespace weft::gpu
