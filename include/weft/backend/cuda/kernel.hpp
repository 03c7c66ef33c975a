// What kernel bodies are written against. A kernel is a struct: its members are its arguments, its call operator is
// what one thread does, a template over the block that runs it: device_block.cuh on a GPU, host_block.hpp in a test.
// Invariant: a body reaches a GPU's abilities through its block alone, so plain C++ compiles it too.
#pragma once

#include <concepts>
#include <cstdint>

#include <weft/core/anywhere.hpp>
#include <weft/core/dtype.hpp>

/// Before a loop whose every turn a GPU has to have its own registers for.
#if defined(__CUDACC__)
#define WEFT_UNROLLED _Pragma("unroll")
#define WEFT_ROLLED _Pragma("unroll 1")  // the opposite
#else
#define WEFT_UNROLLED
#define WEFT_ROLLED
#endif

namespace weft::gpu {

using int64 = std::int64_t;

inline constexpr int warp_size = 32;

/// Elements that one 16-byte load brings.
template <class T>
inline constexpr int pack_size = static_cast<int>(16 / sizeof(T));

/// N neighbours (1, 2, 4, 8 or 16), loaded and stored at once; at most 16 bytes.
template <class T, int N>
struct alignas(static_cast<std::size_t>(N) * sizeof(T)) pack {
  T at[static_cast<std::size_t>(N)];
};

/// N of them, in an array.
template <class V, int N>
using array_of = V[static_cast<std::size_t>(N)];

/// A warp's part of a [16, 16] matrix of 16-bit numbers, as the tensor cores take it. Lane 4 g + t has in `at` the
/// pairs of columns (2t, 2t + 1) of row g and of row g + 8, then (2t + 8, 2t + 9) of both; a pair's first is the lower
/// half.
using fragment = pack<std::uint32_t, 4>;

/// Whether all of the pointers can be read 16 bytes at a time. Null counts as one that can.
template <class... Ts>
bool aligned_for_packs(const Ts*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

/// Calls f.operator()<N>(i) for i = first, first + step, ... over n elements: in packs of P where `packed`, then one by
/// one. `first` and `step` count threads: this one's number and how many there are.
template <int P, class F>
WEFT_ON_DEVICE void for_packs(int64 first, int64 step, int64 n, bool packed, F f) {
  const int64 packs = packed ? n / P : 0;
  for (int64 i = first; i < packs; i += step) f.template operator()<P>(i * P);
  for (int64 i = packs * P + first; i < n; i += step) f.template operator()<1>(i);
}

/// The same, over all threads of the grid (a grid-stride loop).
template <int P, class Block, class F>
WEFT_ON_DEVICE void for_packs_of_grid(const Block& block, int64 n, bool packed, F f) {
  for_packs<P>(block.index() * block.threads() + block.thread(), block.blocks() * block.threads(), n, packed, f);
}

}  // namespace weft::gpu
