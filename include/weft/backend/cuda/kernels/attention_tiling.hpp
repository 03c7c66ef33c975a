// How attention on tensor cores is cut into tiles, for each head_dim that it takes: by what registers (255 a thread)
// and shared memory hold. Invariant: a block asks for at most what one may have of sm_80.
#pragma once

#include <weft/core/requirements.hpp>

#include <cstddef>

namespace weft::gpu {

/// What one block of sm_80 may have of shared memory; one of sm_90 has 227 KiB.
inline constexpr std::size_t tensor_shared_memory = 163 * 1024;

/// A block has `warps` warps of 16 `r` rows each, queries or keys, which meet all others that they see.
struct attention_tiling {
  int r;
  int tile;           // so many of the others are in shared memory at a time, and as many again on their way,
  int step;           // of which a warp takes so many at a time; the forward all
  int warps;          // of a block,
  int blocks;         // so many of which are to share a multiprocessor
  bool held = false;  // whether a warp keeps its rows in registers
  int sharing = 1;    // so many warps have the same rows: each weighs its step of a tile, and adds up its columns
};

/// For heads of D numbers: the forward, the backward's dk and dv, and its dq.
template <int D>
struct attention_tilings;
template <>
struct attention_tilings<64> {
  static constexpr attention_tiling forward{2, 64, 64, 4, 2, true}, of_keys{2, 64, 32, 4, 2},
      of_queries{2, 64, 32, 4, 2, true};
};
template <>
struct attention_tilings<96> {
  static constexpr attention_tiling forward{2, 64, 64, 4, 2}, of_keys{1, 64, 64, 8, 1}, of_queries{2, 32, 32, 4, 2};
};
template <>
struct attention_tilings<128> {
  static constexpr attention_tiling forward{2, 64, 64, 4, 2}, of_keys{1, 64, 64, 8, 1}, of_queries{2, 32, 32, 4, 2};
};
template <>
struct attention_tilings<256> {
  static constexpr attention_tiling forward{1, 32, 32, 8, 1, true}, of_keys{1, 32, 16, 8, 1, false, 2},
      of_queries{1, 32, 16, 8, 1, true, 2};
};

}  // namespace weft::gpu
