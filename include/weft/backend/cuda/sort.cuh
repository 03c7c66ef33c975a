// Sorting on a stream, by CUB's radix sort. Invariant: keys that are equal in the bits asked for stay in the order they
// were in, so what is summed in that order has the same bits in every run.
#pragma once

#include <cub/device/device_radix_sort.cuh>

#include <weft/backend/cuda/error.cuh>
#include <weft/backend/cuda/queue.hpp>

namespace weft::gpu {

/// What sort() needs beside the keys, in bytes: on the calling thread's device.
template <class Key>
std::size_t sort_bytes(int64 count, key_bits by) {
  std::size_t bytes = 0;
  check(cub::DeviceRadixSort::SortKeys(nullptr, bytes, static_cast<const Key*>(nullptr), static_cast<Key*>(nullptr),
                                       static_cast<std::uint32_t>(count), by.first, by.last),
        "cub::DeviceRadixSort::SortKeys");
  return bytes;
}
/// sorted[0, count) = keys in ascending order of those bits. `keys` and `sorted` don't overlap; `beside` is memory as
/// sort_bytes says.
template <class Key>
void sort(cudaStream_t on, const Key* keys, Key* sorted, int64 count, key_bits by, void* beside, std::size_t bytes) {
  check(cub::DeviceRadixSort::SortKeys(beside, bytes, keys, sorted, static_cast<std::uint32_t>(count), by.first,
                                       by.last, on),
        "cub::DeviceRadixSort::SortKeys");
}

}  // namespace weft::gpu
