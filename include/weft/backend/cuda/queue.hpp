// What the kernels of a device are given to: a CUDA stream (stream.cuh), or a test's stand-in that runs them on the
// host; and the grids that most of them run on. Invariant: how many blocks there are never decides a sum's order.
#pragma once

#include <algorithm>

#include <weft/backend/cuda/kernel.hpp>
#include <weft/backend/cuda/matmul_layout.hpp>
#include <weft/core/float8.hpp>
#include <weft/memory/local_array.hpp>

namespace weft::gpu {

/// A kernel that does nothing.
struct no_kernel {
  template <class Block>
  WEFT_ON_DEVICE void operator()(Block&) const {}
};

/// A number for each element.
struct no_value {
  WEFT_ANYWHERE std::int64_t operator()(std::int64_t) const { return 0; }
};

/// The bits of a key that it is sorted by: [first, last), 0 the lowest.
struct key_bits {
  int first, last;
};

/// What a queue of kernels offers. Everything given to it runs in that order; `upload` returns when the host
/// may write over its own, `download` when it is done.
template <class Q>
concept kernel_queue = requires(Q& q, const void* from, void* to, std::size_t bytes, const no_kernel& kernel,
                                const std::uint64_t* keys, std::uint64_t* sorted, std::int64_t* sums) {
  { Q::block_threads } -> std::convertible_to<int>;          // threads of every block
  { q.resident_blocks() } -> std::convertible_to<int64>;     // blocks worth having at once
  { q.block_memory() } -> std::convertible_to<std::size_t>;  // bytes of shared memory that a block may have
  q.start(int64{1}, bytes, kernel);                          // blocks, bytes of shared memory
  { q.scratch(bytes) } -> std::convertible_to<void*>;        // memory for the next kernels, until the next call
  q.copy(from, to, bytes);
  q.upload(from, to, bytes);
  q.download(from, to, bytes);
  q.zero(to, bytes);
  // keys in ascending order of some of their bits, those that are equal there in the order they are in
  { q.template sort_bytes<std::uint64_t>(int64{1}, key_bits{0, 64}) } -> std::convertible_to<std::size_t>;
  q.sort(keys, sorted, int64{1}, key_bits{0, 64}, to, bytes);
  // the least of each row of keys
  { q.row_least_bytes(int64{1}, int64{1}) } -> std::convertible_to<std::size_t>;
  q.row_least(int64{1}, int64{1}, keys, sorted, to, bytes);
  // sums[i] = value(0) + ... + value(i)
  { q.template running_sum_bytes<no_value>(int64{1}) } -> std::convertible_to<std::size_t>;
  q.running_sum(int64{1}, no_value(), sums, to, bytes);
  // out (+)= first * second, and then the epilogue; false, and nothing done, where no library can
  {
    q.multiply(matmul_shape{}, dtype::f32, dtype::f32, blas_product{}, from, from, to, true, matmul_epilogue{})
    } -> std::convertible_to<bool>;
};

/// A queue whose library may multiply numbers of 8 bits: out (+)= first * second, each times the number that undoes its
/// scale; false, and nothing done, where it can't.
template <class Q>
concept float8_queue = kernel_queue<Q> && requires(Q& q, const std::uint8_t* codes, const float* undo, void* to) {
  { q.has_float8() } -> std::convertible_to<bool>;
  {
    q.multiply_float8(matmul_shape{}, dtype::f32, blas_product{}, codes, float8_form::e4m3, undo, codes,
                      float8_form::e4m3, undo, to, true)
    } -> std::convertible_to<bool>;
};

/// A kernel over n elements of T, `each` to a thread: as many blocks as that takes, at most what is worth having at
/// once.
template <class T, class Queue, class Kernel>
void over_elements(Queue& q, int64 n, const Kernel& kernel, int each = pack_size<T>) {
  const int64 per_block = int64{Queue::block_threads} * each;
  q.start(std::min<int64>((n + per_block - 1) / per_block, q.resident_blocks()), 0, kernel);
}
/// A kernel that gives each of n pieces of work to a block.
template <class Queue, class Kernel>
void block_for_each(Queue& q, int64 n, std::size_t shared_bytes, const Kernel& kernel) {
  q.start(std::min<int64>(n, q.resident_blocks()), shared_bytes, kernel);
}
/// A kernel that gives each of n pieces of work to a warp.
template <class Queue, class Kernel>
void warp_for_each(Queue& q, int64 n, const Kernel& kernel) {
  constexpr int64 per_block = Queue::block_threads / warp_size;
  q.start(std::min<int64>((n + per_block - 1) / per_block, q.resident_blocks()), 0, kernel);
}
/// Shared memory for one A a warp.
template <class Queue, class A>
inline constexpr std::size_t warp_scratch = static_cast<std::size_t>(Queue::block_threads / warp_size) * sizeof(A);

/// Parts of a sum that goes over a whole array: fixed, so that its order doesn't depend on the device.
inline constexpr int64 part_blocks = 256;

}  // namespace weft::gpu
