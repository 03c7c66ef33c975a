// The words of memory: copies, fills, conversions. Invariant: bits move as they are; a conversion rounds once.
#pragma once

#include <weft/backend/cuda/kernels/elementwise.hpp>
#include <weft/backend/cuda/queue.hpp>

namespace weft::gpu {

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
      const bool aligned = aligned_for_packs(from.as<const T>(), to.as<T>()) && writes_all(ndim, extents, to_strides);
      const auto loop = strided_loop<2>::over(ndim, extents, {from_strides, to_strides}, pack_size<T>, aligned);
      over_elements<T>(q, loop.n, strided_copy_kernel<T>{loop, from.as<const T>(), to.as<T>()}, 1);
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

 private:
  // An output has no stride of 0: packs of it are stored whole.
  static bool writes_all(int ndim, const std::int64_t* extents, const std::int64_t* strides) {
    for (int d = 0; d < ndim; ++d)
      if (extents[d] > 1 && strides[d] == 0) return false;
    return true;
  }
};

}  // namespace weft::gpu
