// A matrix product for operands that cuBLASLt can't describe: any strides, a thread for each element of the output.
// Invariant: sums are in the accumulate type, in order of k, and rounded once. Simple, not fast.
// Of matrices of a, b and c numbers, of [m, k] and [k, n]:
//   strided_matmul_kernel: (a + b + c) T bytes, 2 m n k FLOPs
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/cuda/kernel.hpp>

namespace weft::gpu {

/// c[b,i,j] (+)= sum over k of a[b,i,k] * b[b,k,j].
template <class T, class Out>
struct strided_matmul_kernel {
  matmul_shape size;
  const T* a;
  strides sa;
  const T* b;
  strides sb;
  Out* c;
  strides sc;
  bool accumulate;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    using A = accumulate_t<T>;
    for_packs_of_grid<1>(block, size.batch * size.m * size.n, false, [&]<int>(int64 at) {
      const int64 j = at % size.n, i = at / size.n % size.m, batch = at / size.n / size.m;
      const T* row = a + batch * sa.batch + i * sa.row;
      const T* column = b + batch * sb.batch + j * sb.column;
      Out* out = c + batch * sc.batch + i * sc.row + j * sc.column;
      A sum = accumulate ? static_cast<A>(block.widen(*out)) : A(0);
      for (int64 k = 0; k < size.k; ++k) sum += block.widen(row[k * sa.column]) * block.widen(column[k * sb.row]);
      *out = block.template narrow<Out>(sum);
    });
  }
};

}  // namespace weft::gpu
