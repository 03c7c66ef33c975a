// Running sums and the least of each row, on a stream: CUB's scan and its reduction by key, of what Thrust's iterators
// compute as it is read. Invariant: numbers are integers, so that the order in which CUB joins them doesn't matter.
#pragma once

#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <weft/backend/cuda/error.cuh>
#include <weft/backend/cuda/queue.hpp>

namespace weft::gpu {
namespace detail {

/// The number of the row that an element lies in.
struct row_of_element {
  std::uint32_t width;
  WEFT_ANYWHERE std::uint32_t operator()(std::uint32_t at) const { return at / width; }
};
struct lesser_key {
  WEFT_ANYWHERE std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a < b ? a : b; }
};
/// By CUB, or `bytes` where `beside` is null. How many rows CUB finds goes to `found`.
inline void row_least(cudaStream_t on, int64 rows, int64 width, const std::uint64_t* keys, std::uint64_t* least,
                      void* beside, std::size_t& bytes, std::uint32_t* found) {
  const auto row = thrust::make_transform_iterator(thrust::counting_iterator<std::uint32_t>(0),
                                                   row_of_element{static_cast<std::uint32_t>(width)});
  check(cub::DeviceReduce::ReduceByKey(beside, bytes, row, thrust::make_discard_iterator(), keys, least, found,
                                       lesser_key(), static_cast<std::uint32_t>(rows * width), on),
        "cub::DeviceReduce::ReduceByKey");
}
template <class Value>
void running_sum(cudaStream_t on, int64 n, const Value& value, int64* sums, void* beside, std::size_t& bytes) {
  const auto values = thrust::make_transform_iterator(thrust::counting_iterator<int64>(0), value);
  check(cub::DeviceScan::InclusiveSum(beside, bytes, values, sums, static_cast<std::uint32_t>(n), on),
        "cub::DeviceScan::InclusiveSum");
}
inline constexpr std::size_t of_found = 256;  // bytes before CUB's, which stay aligned

}  // namespace detail

/// What row_least() needs beside its arrays, in bytes: on the calling thread's device.
inline std::size_t row_least_bytes(int64 rows, int64 width) {
  std::size_t bytes = 0;
  detail::row_least(nullptr, rows, width, nullptr, nullptr, nullptr, bytes, nullptr);
  return detail::of_found + bytes;
}
/// least [rows] = of keys [rows, width], at least one and below 2^32 in all. `beside` is memory as row_least_bytes
/// says.
inline void row_least(cudaStream_t on, int64 rows, int64 width, const std::uint64_t* keys, std::uint64_t* least,
                      void* beside, std::size_t bytes) {
  bytes -= detail::of_found;
  detail::row_least(on, rows, width, keys, least, static_cast<std::byte*>(beside) + detail::of_found, bytes,
                    static_cast<std::uint32_t*>(beside));
}

/// What running_sum() needs beside its arrays, in bytes: on the calling thread's device.
template <class Value>
std::size_t running_sum_bytes(int64 n) {
  std::size_t bytes = 0;
  detail::running_sum(nullptr, n, Value{}, nullptr, nullptr, bytes);
  return bytes;
}
/// sums[i] = value(0) + ... + value(i), for i below n; `beside` is memory as running_sum_bytes says.
template <class Value>
void running_sum(cudaStream_t on, int64 n, const Value& value, int64* sums, void* beside, std::size_t bytes) {
  detail::running_sum(on, n, value, sums, beside, bytes);
}

}  // namespace weft::gpu
