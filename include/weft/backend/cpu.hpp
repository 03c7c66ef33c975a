// The CPU backend: the kernels of cpu/ under the names that operators call.
// Invariant: a queue is a rank's team of cores; every call returns when its work is done.
#pragma once

#include <cstring>
#include <memory>

#include <weft/backend/cpu/compiled.hpp>
#include <weft/backend/cpu/kernels.hpp>
#include <weft/backend/cpu/matmul.hpp>
#include <weft/backend/cpu/row_loss.hpp>

namespace weft {

/// The host: tensors in its memory, kernels for the instruction set that is found there (backend/cpu/isa.hpp).
struct cpu_backend {
  using queue = cpu::team;

  /// The queue of one rank, with `threads` cores.
  static std::shared_ptr<queue> open(int /*ranks*/, int rank, int threads) {
    return std::make_shared<queue>(threads, rank);
  }
  /// Where its tensors live, and whether the host may read them there.
  static constexpr bool host_memory = true;
  static memory_source memory() { return {}; }

#define WEFT_DETAIL_KERNEL(name)                        \
  template <class... Args>                              \
  static void name(queue& cores, const Args&... args) { \
    cpu::name(cores, args...);                          \
  }
#include <weft/backend/kernel_names.inl>
#undef WEFT_DETAIL_KERNEL

  /// y = F(x); dx (+)= F'(x) * dy. A program has the kernels of the functions that it names.
  template <unary F, class T>
  static void apply(queue& cores, std::int64_t n, const T* x, T* y) {
    cpu::apply<F>(cores, n, x, y);
  }
  template <unary F, class T>
  static void apply_backward(queue& cores, std::int64_t n, const T* x, const T* dy, T* dx, bool add) {
    cpu::apply_backward<F>(cores, n, x, dy, dx, add);
  }

  template <reduce Kind, class... Args>
  static void reduce_dims(queue& cores, const Args&... args) {
    cpu::reduce_dims<Kind>(cores, args...);
  }

  template <class T>
  static array_statistics statistics(queue& cores, std::int64_t n, const T* x) {
    return cpu::statistics(cores, n, x);
  }
  template <class T>
  static std::int64_t zero_not_finite(queue& cores, std::int64_t n, T* x) {
    return cpu::zero_not_finite(cores, n, x);
  }

  static void copy_bytes(queue&, const void* from, void* to, std::int64_t bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  /// From and to the host's memory, which a device's backend can't address.
  static void upload(queue& cores, const void* host, void* to, std::int64_t bytes) {
    copy_bytes(cores, host, to, bytes);
  }
  static void download(queue& cores, const void* from, void* host, std::int64_t bytes) {
    copy_bytes(cores, from, host, bytes);
  }
  static void zero(queue&, const local_array& y) { std::memset(y.data, 0, static_cast<std::size_t>(y.bytes())); }
  /// Every element of a scalar or larger array becomes `number`.
  static void fill(queue& cores, const local_array& y, double number) {
    visit_dtype(y.type, [&]<class T>() { cpu::fill(cores, y.elements(), static_cast<T>(number), y.as<T>()); });
  }

  /// to = from, over `ndim` extents with the strides of each, in elements. Both have one type.
  static void copy(queue& cores, int ndim, const std::int64_t* extents, const local_array& from,
                   const std::int64_t* from_strides, const local_array& to, const std::int64_t* to_strides) {
    cpu::copy(cores, ndim, extents, size_of(from.type), from.data, from_strides, to.data, to_strides);
  }
  /// to (+)= from in another floating type.
  template <class From, class To>
  static void convert(queue& cores, std::int64_t n, const From* from, To* to, bool add) {
    cpu::convert(cores, n, from, to, add);
  }
};

}  // namespace weft
