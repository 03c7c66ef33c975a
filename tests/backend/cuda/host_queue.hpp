// A queue that runs the CUDA kernels on the host (host_block.hpp) and stands in for cuBLASLt with plain loops over the
// column-major description it would get; and the backend made of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <weft/backend/cuda/backend.hpp>
#include <weft/backend/cuda/host_block.hpp>

namespace weft_test {

class host_queue {
 public:
  static constexpr int block_threads = 64;
  static constexpr bool runs_behind = false;

  explicit host_queue(std::uint64_t seed = 1) : seed_(seed) {}
  std::int64_t resident_blocks() const { return 3; }  // few, so that the loops over the grid go round
  std::size_t block_memory() const { return most_block_memory; }

  template <class Kernel>
  void start(std::int64_t blocks, std::size_t shared_bytes, const Kernel& kernel) {
    int threads = block_threads;
    if constexpr (requires { Kernel::threads; }) threads = Kernel::threads;
    weft::gpu::run_on_host({blocks, threads, shared_bytes, seed_++}, kernel);
    ++started;
  }
  void* scratch(std::size_t bytes) {
    scratch_ = std::make_unique<std::byte[]>(bytes);
    std::memset(scratch_.get(), 0xff, bytes);
    return scratch_.get();
  }
  template <class Key>
  static std::size_t sort_bytes(std::int64_t, weft::gpu::key_bits) {
    return 0;
  }
  template <class Key>
  void sort(const Key* keys, Key* sorted, std::int64_t count, weft::gpu::key_bits by, void*, std::size_t) {
    const auto place = [&](Key k) {
      return by.last - by.first < 64 ? k >> by.first & ((Key{1} << (by.last - by.first)) - 1) : k;
    };
    std::copy_n(keys, count, sorted);
    std::stable_sort(sorted, sorted + count, [&](Key a, Key b) { return place(a) < place(b); });
  }
  static std::size_t row_least_bytes(std::int64_t, std::int64_t) { return 0; }
  void row_least(std::int64_t rows, std::int64_t width, const std::uint64_t* keys, std::uint64_t* least, void*,
                 std::size_t) {
    for (std::int64_t row = 0; row < rows; ++row)
      least[row] = *std::min_element(keys + row * width, keys + (row + 1) * width);
  }
  template <class Value>
  static std::size_t running_sum_bytes(std::int64_t) {
    return 0;
  }
  template <class Value>
  void running_sum(std::int64_t n, const Value& value, std::int64_t* sums, void*, std::size_t) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sums[i] = sum += value(i);
  }
  void copy(const void* from, void* to, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void upload(const void* from, void* to, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void download(const void* from, void* to, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void zero(void* to, std::size_t bytes) { std::memset(to, 0, bytes); }
  template <class F>
  void enqueue(F&& f) {
    f();
  }
  void synchronize() {}

  bool multiply(const weft::matmul_shape& size, weft::dtype in, weft::dtype out_type, const weft::gpu::blas_product& p,
                const void* first, const void* second, void* out, bool accumulate, const weft::matmul_epilogue& after) {
    if (!library) return false;
    ++multiplied;
    weft::visit_dtype(in, [&]<class T>() {
      weft::visit_dtype(out_type, [&]<class Out>() {
        if constexpr (weft::floating<T> && weft::floating<Out>)
          column_major_product(size, p, static_cast<const T*>(first), static_cast<const T*>(second),
                               static_cast<Out*>(out), accumulate, after);
      });
    });
    return true;
  }

  bool library = true;  // whether multiply() knows how
  int started = 0, multiplied = 0;
  std::size_t most_block_memory = 227 * 1024;

  /// As BLAS defines it: element (i, j) of a matrix in memory at i + j * leading.
  template <class T, class Out>
  static void column_major_product(const weft::matmul_shape& size, const weft::gpu::blas_product& p, const T* first,
                                   const T* second, Out* out, bool accumulate, const weft::matmul_epilogue& after) {
    const auto element = [](const auto* m, const weft::gpu::column_major& d, std::int64_t b, std::int64_t i,
                            std::int64_t j) {
      if (d.transposed) std::swap(i, j);
      weft::require(i < d.rows && j < d.columns && d.leading >= d.rows,
                    "the description of a matrix doesn't hold the element asked for");
      return m + b * d.batch_stride + i + j * d.leading;
    };
    for (std::int64_t b = 0; b < size.batch; ++b)
      for (std::int64_t i = 0; i < size.n; ++i)
        for (std::int64_t j = 0; j < size.m; ++j) {
          Out* c = const_cast<Out*>(element(out, p.out, b, i, j));
          double sum = accumulate ? static_cast<double>(*c) : 0;
          for (std::int64_t k = 0; k < size.k; ++k)
            sum += static_cast<double>(*element(first, p.first, b, i, k)) *
                   static_cast<double>(*element(second, p.second, b, k, j));
          const auto put = [](Out* to, double x) {
            if constexpr (sizeof(Out) == 2)
              *to = Out(static_cast<float>(x));
            else
              *to = static_cast<Out>(x);
          };
          if (after.bias) sum += static_cast<double>(static_cast<const Out*>(after.bias)[i]);
          if (after.before_gelu) {
            put(static_cast<Out*>(after.before_gelu) + (c - out), sum);
            sum *= 0.5 * (1 + std::tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
          }
          put(c, sum);
        }
  }

 private:
  std::uint64_t seed_;
  std::unique_ptr<std::byte[]> scratch_;
};

/// The CUDA backend's kernels on the host. Its memory is the host's, but nothing may know that: host_memory is false.
struct host_cuda_backend : weft::gpu::device_kernels<host_queue> {
  static std::shared_ptr<queue> open(int, int, int) { return std::make_shared<queue>(); }
  static constexpr bool host_memory = false;
  static weft::memory_source memory() { return {}; }
};

}  // namespace weft_test
