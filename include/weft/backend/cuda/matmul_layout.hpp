// How a strided row-major product is told to a BLAS that knows columns: c^T = b^T a^T, each operand as it lies in
// memory or transposed. Invariant: no operand is copied; a product that can't be told so says `fits = false`.
#pragma once

#include <weft/backend/concept.hpp>

namespace weft::gpu {

/// A matrix as it lies in memory, column-major: element (i, j) at i + j * leading.
struct column_major {
  std::int64_t rows = 0, columns = 0, leading = 1, batch_stride = 0;
  bool transposed = false;  // the product takes its transpose
};

/// out [n, m] (+)= first [n, k] * second [k, m], `first` being b and `second` a.
struct blas_product {
  bool fits = false;
  column_major first, second, out;
};

namespace detail {

// A matrix of rows x columns with strides `s`, as its transpose (columns x rows) in column-major terms.
inline bool describe(std::int64_t rows, std::int64_t columns, const strides& s, std::int64_t batch, column_major& to) {
  to.batch_stride = batch > 1 ? s.batch : 0;
  if ((s.column == 1 || columns == 1) && (rows == 1 || s.row >= columns)) {
    to.rows = columns, to.columns = rows, to.leading = rows == 1 ? columns : s.row, to.transposed = false;
    return true;
  }
  if ((s.row == 1 || rows == 1) && (columns == 1 || s.column >= rows)) {
    to.rows = rows, to.columns = columns, to.leading = columns == 1 ? rows : s.column, to.transposed = true;
    return true;
  }
  return false;
}

}  // namespace detail

/// The product c = a * b of row-major operands with these strides; sizes are at least 1.
inline blas_product as_blas_product(const matmul_shape& size, const strides& a, const strides& b, const strides& c) {
  blas_product p;
  p.fits = detail::describe(size.k, size.n, b, size.batch, p.first) &&
           detail::describe(size.m, size.k, a, size.batch, p.second) &&
           detail::describe(size.m, size.n, c, size.batch, p.out) && !p.out.transposed;
  return p;
}

}  // namespace weft::gpu
