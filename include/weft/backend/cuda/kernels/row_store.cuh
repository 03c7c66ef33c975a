// Sums of tensor cores stored in whole sectors. Invariant: the numbers are those that tensor_tile::store writes.
#pragma once

#include <weft/backend/cuda/kernels/tensor_tile.hpp>

namespace weft::gpu {

/// Of four neighbouring lanes, each with four words: word i of lane j and word j of lane i change places. By all lanes
/// of a warp.
template <class Block>
__device__ void exchange_words(const Block& block, array_of<std::uint32_t, 4>& words) {
  WEFT_UNROLLED for (int step = 1; step < 4; step *= 2) {
    const bool upper = block.lane() & step;
    WEFT_UNROLLED for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const std::uint32_t got = block.shuffle_xor(upper ? words[i] : words[i + step], step);
      (upper ? words[i] : words[i + step]) = got;
    }
  }
}

/// As tensor_tile::store, of 16 rows, 16 bytes a lane: four neighbouring lanes, which have two columns of every eight,
/// exchange them for eight columns of one row each. `to` is aligned to 16 bytes, and so is every row.
template <class T, int N, class Block, class F>
__device__ void store_rows(const Block& block, const tensor_sums<1, N>& c, F factor, int64 n, T* to, int64 apart,
                           bool add) {
  static_assert(sizeof(T) == 2 && N % 4 == 0);
  const int lane = block.lane();
  WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
    const int row = lane / 4 + i * 8;
    auto* const line = reinterpret_cast<std::uint32_t*>(to + row * apart + lane % 4 * 8);
    const float by = factor(0, i);
    array_of<array_of<std::uint32_t, 4>, N / 4> words = {};
    if (add) {  // all that is there, before anything is written
      if (row < n) WEFT_UNROLLED for (int k = 0; k < N / 4; ++k) {
          const auto old = block.template load<4>(static_cast<const std::uint32_t*>(line + k * 16));
          WEFT_UNROLLED for (int m = 0; m < 4; ++m) words[k][m] = old.at[m];
        }
      WEFT_UNROLLED for (int k = 0; k < N / 4; ++k) exchange_words(block, words[k]);
    }
    WEFT_UNROLLED for (int k = 0; k < N / 4; ++k) {
      array_of<std::uint32_t, 4>& four = words[k];
      WEFT_UNROLLED for (int m = 0; m < 4; ++m) {
        float low = c.at[0][4 * k + m][2 * i] * by, high = c.at[0][4 * k + m][2 * i + 1] * by;
        if (add) {
          const auto old = __builtin_bit_cast(pack<T, 2>, four[m]);
          low += block.widen(old.at[0]), high += block.widen(old.at[1]);
        }
        four[m] = block.template narrow_pair<T>(low, high);
      }
      exchange_words(block, four);
      if (row < n) block.store_whole(line + k * 16, pack<std::uint32_t, 4>{{four[0], four[1], four[2], four[3]}});
    }
  }
}

}  // namespace weft::gpu
