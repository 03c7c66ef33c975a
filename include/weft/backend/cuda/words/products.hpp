// Matrix products: by the queue's library where it can, else by a plain kernel. Invariant: a library that does nothing
// is noticed.
#pragma once

#include <weft/backend/cuda/kernels/float8.hpp>
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
  /// c (+)= a * b of one matrix, of operands rounded to 8 bits: by the queue's library, on codes that lie as it takes
  /// them. False, and nothing done, where it can't.
  template <class T, class Out>
  static bool float8_matmul(queue& q, const matmul_shape& size, const T* a, const strides& sa, float8_form of_a,
                            const T* b, const strides& sb, float8_form of_b, Out* c, const strides& sc,
                            bool accumulate) {
    if constexpr (float8_queue<Queue> && sizeof(T) < 8 && sizeof(Out) < 8) {
      constexpr int64 multiple = 16;  // of what the library takes
      if (!q.has_float8() || size.batch != 1 || size.m == 0 || size.n == 0 || size.k == 0 || size.n % multiple != 0 ||
          size.k % multiple != 0)
        return false;
      const blas_product p = as_blas_product(size, {size.k, 1, 0}, {1, size.k, 0}, sc);
      if (!p.fits) return false;
      const auto rounded_up = [](int64 bytes) { return (bytes + 255) / 256 * 256; };
      const int64 of_codes[2] = {rounded_up(size.m * size.k), rounded_up(size.n * size.k)};
      const int64 of_parts = rounded_up(part_blocks * 4);
      auto* const memory =
          static_cast<std::byte*>(q.scratch(static_cast<std::size_t>(of_codes[0] + of_codes[1] + 3 * of_parts)));
      auto* const undo = reinterpret_cast<float*>(memory);
      auto* const parts = reinterpret_cast<std::uint32_t*>(memory + of_parts);
      auto* const codes = reinterpret_cast<std::uint8_t*>(memory + 3 * of_parts);
      make_codes(q, of_a, size.m, size.k, a, sa.row, sa.column, parts, codes, undo);
      make_codes(q, of_b, size.n, size.k, b, sb.column, sb.row, parts + of_parts / 4, codes + of_codes[0], undo + 1);
      return q.multiply_float8(size, dtype_of<Out>, p, codes + of_codes[0], of_b, undo + 1, codes, of_a, undo, c,
                               accumulate);
    }
    return false;
  }

 private:
  // Codes [rows, columns] of x, and what undoes their scale.
  template <class T>
  static void make_codes(queue& q, float8_form form, int64 rows, int64 columns, const T* x, int64 row, int64 column,
                         std::uint32_t* parts, std::uint8_t* codes, float* undo) {
    const int64 blocks = std::clamp<int64>(rows * columns / 8192, 1, part_blocks);
    const bool by_rows = column == 1;
    const int64 extents[2] = {by_rows ? rows : columns, by_rows ? columns : rows};
    const int64 stride[2] = {by_rows ? row : column, by_rows ? column : row};
    const auto loop = strided_loop<1>::over(2, extents, {stride}, pack_size<T>, aligned_for_packs(x));
    q.start(blocks, warp_scratch<Queue, std::uint32_t>, largest_magnitude_kernel<T>{loop, x, parts});
    using kernel = float8_codes_kernel<T>;
    const bool packed = by_rows && aligned_for_packs(x) && (rows == 1 || row % pack_size<T> == 0);
    block_for_each(q, (rows * columns / kernel::each + Queue::block_threads - 1) / Queue::block_threads,
                   warp_scratch<Queue, std::uint32_t>,
                   kernel{form, rows, columns, x, row, column, parts, blocks, codes, undo, packed});
  }
  template <class T, class Out>
  static bool by_library(queue& q, const matmul_shape& size, const T* a, const strides& sa, const T* b,
                         const strides& sb, Out* c, const strides& sc, bool accumulate, const matmul_epilogue& after) {
    if (size.k == 0) return false;
    const blas_product p = as_blas_product(size, sa, sb, sc);
    return p.fits && q.multiply(size, dtype_of<T>, dtype_of<Out>, p, b, a, c, accumulate, after);
  }
};

}  // namespace weft::gpu
