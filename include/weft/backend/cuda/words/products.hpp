// Matrix products: by the queue's library where it can, else by a plain kernel. Invariant: a library that does nothing
// is noticed.
#pragma once

#include <weft/backend/cuda/kernels/strided_matmul.hpp>
#include <weft/backend/cuda/queue.hpp>

namespace weft::gpu {

template <class Queue>
struct product_words {
  using queue = Queue;

  /// c (+)= a * b, as cpu::matmul: by the queue's library where it can, else by a simple kernel.
  template <class T, class Out>
  static void matmul(queue& q, const matmul_shape& size, const T* a, const strides& sa, const T* b, const strides& sb,
                     Out* c, const strides& sc, bool accumulate) {
    require(sc.column == 1, "matmul: the column stride of c must be 1, not ", sc.column, ".");
    if (size.batch * size.m * size.n == 0) return;
    if (size.k > 0) {
      const blas_product p = as_blas_product(size, sa, sb, sc);
      if (p.fits && q.multiply(size, dtype_of<T>, dtype_of<Out>, p, b, a, c, accumulate)) return;
    }
    over_elements<Out>(q, size.batch * size.m * size.n,
                       strided_matmul_kernel<T, Out>{size, a, sa, b, sb, c, sc, accumulate}, 1);
  }
};

}  // namespace weft::gpu
