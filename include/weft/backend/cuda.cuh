// The CUDA backend: what the MLP block needs forward and backward, and RMSNorm, under the names that operators call.
// Invariant: a queue is one stream; a call returns when its work is queued, except those that touch host memory.
#pragma once

#include <algorithm>

#include <weft/backend/cuda/device_block.cuh>
#include <weft/backend/cuda/kernels/elementwise.hpp>
#include <weft/backend/cuda/kernels/rms_norm.hpp>
#include <weft/backend/cuda/kernels/strided_matmul.hpp>
#include <weft/backend/cuda/kernels/swiglu.hpp>
#include <weft/backend/cuda/stream.cuh>
#include <weft/tensor/array.hpp>

namespace weft {

struct cuda_backend {
  using queue = cuda::stream;

  /// The queue of one rank. Throws weft::error where there is no GPU.
  static std::shared_ptr<queue> open(int ranks, int, int) {
    require(ranks == 1, "cuda_backend runs one rank so far, not ", ranks, ": no communicator here moves device memory yet");
    return std::make_shared<queue>(0);
  }
  static memory_source memory() { return cuda::device_memory(); }

  // ---- memory ----
  static void copy_bytes(queue& q, const void* from, void* to, std::int64_t bytes) {
    if (bytes) cuda::check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, q.get()), "cudaMemcpyAsync");
  }
  /// From the host's memory; returns when it has been read.
  static void upload(queue& q, const void* host, void* to, std::int64_t bytes) {
    if (bytes) cuda::check(cudaMemcpyAsync(to, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, q.get()), "cudaMemcpyAsync");
    q.wait();
  }
  /// Into the host's memory; returns when it is there.
  static void download(queue& q, const void* from, void* host, std::int64_t bytes) {
    if (bytes) cuda::check(cudaMemcpyAsync(host, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, q.get()), "cudaMemcpyAsync");
    q.wait();
  }
  static void zero(queue& q, const array& y) {
    if (y.bytes()) cuda::check(cudaMemsetAsync(y.data, 0, static_cast<std::size_t>(y.bytes()), q.get()), "cudaMemsetAsync");
  }
  static void fill(queue& q, const array& y, double number) {
    visit_dtype(y.type, [&]<class T>() {
      T value;
      if constexpr (sizeof(T) == 2) value = T(static_cast<float>(number));
      else value = static_cast<T>(number);
      stream_over<T>(q, y.elements(), cuda::fill_kernel<T>{y.elements(), value, y.as<T>(), cuda::aligned_for_packs(y.as<T>())});
    });
  }
  /// to (+)= from in another floating type.
  static void convert(queue& q, const array& from, const array& to, bool add) {
    with_floating(from.type, [&]<class From>() {
      with_floating(to.type, [&]<class To>() {
        const auto *x = from.as<const From>();
        stream_over<From>(q, from.elements(), cuda::convert_kernel<From, To>{from.elements(), x, to.as<To>(), add, cuda::aligned_for_packs(x, to.as<To>())});
      });
    });
  }

  // ---- matrix products ----
  /// As cpu::matmul. By cuBLASLt where it can, else by a simple kernel of our own.
  template <class T, class Out>
  static void matmul(queue& q, const matmul_shape& size, const T* a, strides sa, const T* b, strides sb, Out* c, strides sc, bool accumulate) {
    require(sc.column == 1, "matmul: the column stride of c must be 1, not ", sc.column, ".");
    if (size.batch * size.m * size.n == 0) return;
    if (size.k > 0) {
      const cuda::blas_product p = cuda::as_blas_product(size, sa, sb, sc);
      if (p.fits && q.blas().multiply(q.get(), size, dtype_of<T>, dtype_of<Out>, p, b, a, c, accumulate)) return;
    }
    stream_over<Out>(q, size.batch * size.m * size.n, cuda::strided_matmul_kernel<T, Out>{size, a, sa, b, sb, c, sc, accumulate}, 1);
  }

  // ---- own kernels ----
  template <class T>
  static void swiglu(queue& q, std::int64_t n, const T* gate, const T* up, T* y) {
    stream_over<T>(q, n, cuda::swiglu_kernel<T>{n, gate, up, y, cuda::aligned_for_packs(gate, up, y)});
  }
  template <class T>
  static void swiglu_backward(queue& q, std::int64_t n, const T* gate, const T* up, const T* dy, T* dgate, bool add_gate, T* dup, bool add_up) {
    stream_over<T>(q, n, cuda::swiglu_backward_kernel<T>{n, gate, up, dy, dgate, add_gate, dup, add_up, cuda::aligned_for_packs(gate, up, dy, dgate, dup)});
  }
  template <class T>
  static void rms_norm(queue& q, std::int64_t rows, std::int64_t width, double eps, const T* x, const T* weight, T* y, accumulate_t<T>* rstd) {
    const bool packed = width % cuda::pack_size<T> == 0 && cuda::aligned_for_packs(x, weight, y);
    cuda::launch(q.get(), std::min(rows, row_blocks(q)), warp_scratch<T>,
                 cuda::rms_norm_kernel<T>{rows, width, static_cast<accumulate_t<T>>(eps), x, weight, y, rstd, packed});
  }
  template <class T, class G>
  static void rms_norm_backward(queue& q, std::int64_t rows, std::int64_t width, const T* x, const T* weight, const accumulate_t<T>* rstd, const T* dy,
                                T* dx, bool add_dx, G* dweight, bool add_dweight) {
    using A = accumulate_t<T>;
    if (!rows) {
      if (dweight && !add_dweight) zero(q, array(dweight, dtype_of<G>, shape{1, {width}}));
      return;
    }
    const std::int64_t blocks = std::min(rows, part_blocks);
    A* parts = dweight ? static_cast<A*>(q.scratch(static_cast<std::size_t>(blocks * width) * sizeof(A))) : nullptr;
    const bool packed = width % cuda::pack_size<T> == 0 && cuda::aligned_for_packs(x, weight, dy, dx);
    cuda::launch(q.get(), blocks, warp_scratch<T>, cuda::rms_norm_backward_kernel<T>{rows, width, x, weight, rstd, dy, dx, add_dx, parts, packed});
    if (dweight) stream_over<G>(q, width, cuda::sum_parts_kernel<A, G>{blocks, width, parts, dweight, add_dweight}, 1);
  }

 private:
  static constexpr std::int64_t part_blocks = 256;  // fixed, so that the sum's order doesn't depend on the device
  template <class T>
  static constexpr std::size_t warp_scratch = cuda::block_threads / cuda::warp_size * sizeof(accumulate_t<T>);
  static std::int64_t row_blocks(const queue& q) { return std::int64_t{8} * q.multiprocessors(); }

  // A kernel over n elements of T, `each` to a thread: as many blocks as that takes, at most what the device holds at once.
  template <class T, class Kernel>
  static void stream_over(queue& q, std::int64_t n, const Kernel& kernel, int each = cuda::pack_size<T>) {
    const std::int64_t per_block = std::int64_t{cuda::block_threads} * each;
    cuda::launch(q.get(), std::min((n + per_block - 1) / per_block, row_blocks(q)), 0, kernel);
  }
  template <class F>
  static void with_floating(dtype type, F&& f) {
    visit_dtype(type, [&]<class T>() {
      if constexpr (floating<T>) f.template operator()<T>();
      else fail("only floating tensors are converted, not ", name_of(type));
    });
  }
};

}  // namespace weft
