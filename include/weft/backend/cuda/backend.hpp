// The kernels of a device under the names that operators call, over any queue that can start them: a CUDA stream
// (stream.cuh), or a test's stand-in that runs them on the host. Invariant: which kernel runs on which grid is decided
// here, in plain C++.
#pragma once

#include <algorithm>

#include <weft/backend/cuda/kernels/elementwise.hpp>
#include <weft/backend/cuda/kernels/rms_norm.hpp>
#include <weft/backend/cuda/kernels/strided_matmul.hpp>
#include <weft/backend/cuda/kernels/swiglu.hpp>
#include <weft/backend/cuda/matmul_layout.hpp>
#include <weft/tensor/local_array.hpp>

namespace weft::cuda {

/// What a queue of kernels offers. Everything given to it runs in that order; `upload`, `download` return when done.
template <class Q>
concept kernel_queue = requires(Q& q, const void* from, void* to, std::size_t bytes, const fill_kernel<float>& kernel) {
  { Q::block_threads } -> std::convertible_to<int>;       // threads of every block
  { q.resident_blocks() } -> std::convertible_to<int64>;  // blocks worth having at once
  q.start(int64{1}, bytes, kernel);                       // blocks, bytes of shared memory
  { q.scratch(bytes) } -> std::convertible_to<void*>;     // memory for the next kernels, until the next call
  q.copy(from, to, bytes);
  q.upload(from, to, bytes);
  q.download(from, to, bytes);
  q.zero(to, bytes);
  // out (+)= first * second; false, and nothing done, where no library can
  {
    q.multiply(matmul_shape{}, dtype::f32, dtype::f32, blas_product{}, from, from, to, true)
    } -> std::convertible_to<bool>;
};

/// The MLP block's kernels, forward and backward, and RMSNorm's.
template <kernel_queue Queue>
struct device_kernels {
  using queue = Queue;

  // ---- memory ----
  static void copy_bytes(queue& q, const void* from, void* to, std::int64_t bytes) {
    q.copy(from, to, static_cast<std::size_t>(bytes));
  }
  /// From and to the host's memory.
  static void upload(queue& q, const void* host, void* to, std::int64_t bytes) {
    q.upload(host, to, static_cast<std::size_t>(bytes));
  }
  static void download(queue& q, const void* from, void* host, std::int64_t bytes) {
    q.download(from, host, static_cast<std::size_t>(bytes));
  }
  static void zero(queue& q, const local_array& y) { q.zero(y.data, static_cast<std::size_t>(y.bytes())); }
  /// Every element becomes `number`.
  static void fill(queue& q, const local_array& y, double number) {
    visit_dtype(y.type, [&]<class T>() {
      const T value = static_cast<T>(number);
      over_elements<T>(q, y.elements(), fill_kernel<T>{y.elements(), value, y.as<T>(), aligned_for_packs(y.as<T>())});
    });
  }
  /// to = from, over `ndim` extents with the strides of each, in elements. Both have one type; whichever it is, bits
  /// move.
  static void copy(queue& q, int ndim, const std::int64_t* extents, const local_array& from,
                   const std::int64_t* from_strides, const local_array& to, const std::int64_t* to_strides) {
    const auto as = [&]<class Bits>(Bits) {
      using T = moved_bits<Bits>;
      strided_copy_kernel<T> kernel{1, {}, {}, {}, from.as<const T>(), to.as<T>()};
      static_assert(kernel.max_extents == max_ndim);
      for (int d = 0; d < max_ndim; ++d) {
        kernel.extent[d] = d < ndim ? extents[d] : 1;
        kernel.from_stride[d] = d < ndim ? from_strides[d] : 0;
        kernel.to_stride[d] = d < ndim ? to_strides[d] : 0;
        kernel.n *= kernel.extent[d];
      }
      over_elements<T>(q, kernel.n, kernel, 1);
    };
    switch (size_of(from.type)) {
      case 8:
        return as(std::uint64_t());
      case 4:
        return as(std::uint32_t());
      case 2:
        return as(std::uint16_t());
      default:
        return as(std::uint8_t());
    }
  }
  /// to (+)= from in another floating type.
  template <class From, class To>
  static void convert(queue& q, std::int64_t n, const From* from, To* to, bool add) {
    over_elements<From>(q, n, convert_kernel<From, To>{n, from, to, add, aligned_for_packs(from, to)});
  }

  // ---- matrix products ----
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

  // ---- fused kernels ----
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
  /// y = x * rstd * weight over rows.
  template <class T>
  static void rms_norm(queue& q, std::int64_t rows, std::int64_t width, double eps, const T* x, const T* weight, T* y,
                       accumulate_t<T>* rstd) {
    const bool packed = width % pack_size<T> == 0 && aligned_for_packs(x, weight, y);
    q.start(std::min<int64>(rows, q.resident_blocks()), warp_scratch<T>,
            rms_norm_kernel<T>{rows, width, static_cast<accumulate_t<T>>(eps), x, weight, y, rstd, packed});
  }
  /// dx (+)=, dweight (+)=; each may be null.
  template <class T, class G>
  static void rms_norm_backward(queue& q, std::int64_t rows, std::int64_t width, const T* x, const T* weight,
                                const accumulate_t<T>* rstd, const T* dy, T* dx, bool add_dx, G* dweight,
                                bool add_dweight) {
    using A = accumulate_t<T>;
    const int64 blocks = std::min<int64>(rows, part_blocks);
    A* parts = dweight ? static_cast<A*>(q.scratch(static_cast<std::size_t>(blocks * width) * sizeof(A))) : nullptr;
    const bool packed = width % pack_size<T> == 0 && aligned_for_packs(x, weight, dy, dx);
    q.start(blocks, warp_scratch<T>,
            rms_norm_backward_kernel<T>{rows, width, x, weight, rstd, dy, dx, add_dx, parts, packed});
    if (dweight) over_elements<G>(q, width, sum_parts_kernel<A, G>{blocks, width, parts, dweight, add_dweight}, 1);
  }

 private:
  static constexpr int64 part_blocks = 256;  // fixed, so that the order of a sum doesn't depend on the device
  template <class T>
  static constexpr std::size_t warp_scratch = static_cast<std::size_t>(Queue::block_threads / warp_size) *
                                              sizeof(accumulate_t<T>);

  // A kernel over n elements of T, `each` to a thread: as many blocks as that takes, at most what is worth having at
  // once.
  template <class T, class Kernel>
  static void over_elements(queue& q, int64 n, const Kernel& kernel, int each = pack_size<T>) {
    const int64 per_block = int64{Queue::block_threads} * each;
    q.start(std::min<int64>((n + per_block - 1) / per_block, q.resident_blocks()), 0, kernel);
  }
};

}  // namespace weft::cuda
