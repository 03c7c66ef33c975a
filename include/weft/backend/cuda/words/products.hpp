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
    if (by_library(q, size, a, sa, b, sb, c, sc, accumulate, {})) return;
    over_elements<Out>(q, size.batch * size.m * size.n,
                       strided_matmul_kernel<T, Out>{size, a, sa, b, sb, c, sc, accumulate}, 1);
  }
  /// c = a * b, then `after`: by the queue's library. False, and nothing done, where it can't. sc.column is 1.
  template <class T>
  static bool matmul(queue& q, const matmul_shape& size, const T* a, const strides& sa, const T* b, const strides& sb,
                     T* c, const strides& sc, const matmul_epilogue& after) {
    return size.batch * size.m * size.n > 0 && by_library(q, size, a, sa, b, sb, c, sc, false, after);
  }

 private:
  template <class T, class Out>
  static bool by_library(queue& q, const matmul_shape& size, const T* a, const strides& sa, const T* b,
                         const strides& sb, Out* c, const strides& sc, bool accumulate, const matmul_epilogue& after) {
    if (size.k == 0) return false;
    const blas_product p = as_blas_product(size, sa, sb, sc);
    return p.fits && q.multiply(size, dtype_of<T>, dtype_of<Out>, p, b, a, c, accumulate, after);
  }
};

}  // namespace weft::gpu
