// Attention's forward on tensor cores, as FlashAttention-2 has it (Dao 2023): for bf16 and fp16 and a head_dim known
// when compiling. Invariant: as in attention.hpp; the weights are rounded to T before they are multiplied with values,
// and what they sum to is not.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/cuda/kernels/tensor_tile.hpp>

namespace weft::cuda {

/// How the queries from `first` on see the keys from `begin` on: none of them any, or all of them all.
struct tile_sight {
  bool none, all;

  WEFT_ON_DEVICE tile_sight(const attention_shape& s, int64 first, int queries, int64 begin, int keys)
      : none(first >= s.q_len || begin >= s.end_key(first + queries - 1) || begin + keys <= s.first_key(first)),
        all(begin + keys <= s.end_key(first) && begin >= s.first_key(first + queries - 1) &&
            first + queries <= s.q_len) {}
};

/// As attention_kernel. All arrays are aligned to 16 bytes; a warp has 16 queries.
template <class T, int D>
struct attention_tensor_kernel {
  attention_shape shape;
  const T *q, *k, *v;
  T* out;
  float* sums;

  static constexpr int keys = 64;  // of a tile
  static constexpr std::size_t shared_bytes() { return std::size_t{4} * keys * rows::stride * sizeof(T); }
  static int64 tiles(const attention_shape& s, int threads) {
    const int queries = threads / warp_size * 16;
    return s.batch * s.heads * ((s.q_len + queries - 1) / queries);
  }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const attention_shape& s = shape;
    T* const stages = block.template shared<T>();  // [2, 2, keys, D]: keys and values, of this tile and the next
    const int queries = block.warps() * 16;
    const int64 heads = s.batch * s.heads, tiles_of_head = (s.q_len + queries - 1) / queries;
    const int64 q_apart = s.heads * D, kv_apart = s.kv_heads * D;
    for (int64 item = block.index(); item < heads * tiles_of_head; item += block.blocks()) {
      // The last queries see the most keys, and come first.
      const int64 begin = (tiles_of_head - 1 - item / heads) * queries, b = item % heads / s.heads, h = item % s.heads;
      const int64 mine = begin + block.warp() * 16, n = s.q_len - mine;  // this warp's queries
      const int64 at = ((b * s.q_len + mine) * s.heads + h) * D;
      const int64 kv = (b * s.kv_len * s.kv_heads + h / (s.heads / s.kv_heads)) * D;
      const int64 end = s.end_key(begin + queries - 1 < s.q_len ? begin + queries - 1 : s.q_len - 1);
      const auto fetch = [&](int stage, int64 k0) {
        T* const to = stages + stage * 2 * keys * rows::stride;
        rows::fetch(block, keys, s.kv_len - k0, k + kv + k0 * kv_apart, kv_apart, to);
        rows::fetch(block, keys, s.kv_len - k0, v + kv + k0 * kv_apart, kv_apart, to + keys * rows::stride);
      };
      const auto of_queries = rows::rows_of(block, n, q + at, q_apart);
      progress so_far;
      int64 k0 = s.first_key(begin) / keys * keys;
      if (k0 < end) fetch(0, k0);
      block.end_copies();
      for (int stage = 0; k0 < end; k0 += keys, stage ^= 1) {
        if (k0 + keys < end) fetch(stage ^ 1, k0 + keys);
        block.end_copies();
        block.template wait_for_copies<1>();
        block.sync();
        const tile_sight sight(s, mine, 16, k0, keys);
        if (!sight.none) see(block, of_queries, stages + stage * 2 * keys * rows::stride, mine, k0, sight.all, so_far);
        block.sync();
      }
      float share[2];
      WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
        float sum = so_far.sum[i];
        for (int mask = 1; mask < 4; mask *= 2) sum += block.shuffle_xor(sum, mask);
        share[i] = sum == 0 ? 0 : 1 / sum;
        const int row = block.lane() / 4 + i * 8;
        if (row < n && block.lane() % 4 == 0) {
          float* const top = sums + (b * s.heads + h) * s.q_len + mine + row;
          *top = so_far.high[i];
          top[heads * s.q_len] = sum == 0 ? 0 : block.log(sum);
        }
      }
      rows::store(block, so_far.total, share, n, out + at, q_apart, false);
    }
  }

 private:
  using rows = tensor_tile<T, D>;
  struct progress {
    tensor_sums<D / 8> total;                                // of p v
    float high[2] = {-__builtin_inff(), -__builtin_inff()};  // the largest score of each of this lane's rows
    float sum[2] = {0, 0};                                   // of exp(score - high), this lane's part
  };

  // Takes a tile of keys, and of values behind them, into what is known of a warp's queries from `mine` on.
  template <class Block>
  WEFT_ON_DEVICE void see(Block& block, const tensor_rows<rows::depth>& of_queries, const T* tile, int64 mine, int64 k0,
                          bool all, progress& so_far) const {
    const float scale = static_cast<float>(shape.scale);
    auto p = rows::template times_rows<keys / 8>(
        block, [&](int i) { return of_queries.at[i]; }, tile);
    WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n) WEFT_UNROLLED for (int i = 0; i < 4; ++i) p.at[n][i] *= scale;
    if (!all) WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
        const int64 query = mine + block.lane() / 4 + i * 8;
        const int64 first = shape.first_key(query) - k0, end = shape.end_key(query) - k0;
        WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j) {
          const int key = n * 8 + block.lane() % 4 * 2 + j;
          if (key < first || key >= end) p.at[n][2 * i + j] = -__builtin_inff();
        }
      }
    WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
      const float before = so_far.high[i];
      float now = before;
      WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j) now =
          p.at[n][2 * i + j] > now ? p.at[n][2 * i + j] : now;
      for (int mask = 1; mask < 4; mask *= 2) {
        const float other = block.shuffle_xor(now, mask);
        now = other > now ? other : now;
      }
      const float level = now > -__builtin_inff() ? now : 0, kept = block.fast_exp(before - level);
      float added = 0;
      WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j) {
        p.at[n][2 * i + j] = block.fast_exp(p.at[n][2 * i + j] - level);
        added += p.at[n][2 * i + j];
      }
      so_far.high[i] = now;
      so_far.sum[i] = so_far.sum[i] * kept + added;
      WEFT_UNROLLED for (int n = 0; n < D / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j)
          so_far.total.at[n][2 * i + j] *= kept;
    }
    rows::add_product(block, rows::rounded(block, p), tile + keys * rows::stride, so_far.total);
  }
};

}  // namespace weft::cuda
