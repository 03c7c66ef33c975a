// The words of memory: copies, fills, conversions. Invariant: bits move as they are; a conversion rounds once.
#pragma once

#include <weft/backend/cuda/kernels/elementwise.hpp>
#include <weft/backend/cuda/queue.hpp>

namespace weft::cuda {

template <class Queue>
struct memory_words {
  using queue = Queue;

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
};

}  // namespace weft::cuda
