// Attention without the seq x seq matrix (Dao et al. 2022), grouped-query and causal: the forward as a kernel body.
// Invariant: a tile of queries of one head belongs to one block, which adds its keys up in their order, whatever the
// grid.
// Of n numbers of queries in r rows, m of keys, each row of which sees k keys, with sums in A:
//   attention_kernel: (2 n + 2 m) T + 2 A r bytes, 4 n k FLOPs
#pragma once

#include <weft/backend/cuda/kernels/attention_tile.hpp>

namespace weft::gpu {

/// out = softmax(scale * q k^T) v; sums [2, batch, heads, q_len]: the largest score, and the log of the sum of
/// exp(score - largest). A query that sees no key gives 0, -infinity and 0. Shapes: see attention_shape.
template <class T>
struct attention_kernel {
  using A = accumulate_t<T>;
  static constexpr int threads = attention_threads;
  static constexpr int blocks_at_once = sizeof(A) == 4 ? 4 : 3;  // for 128 registers, or 168
  attention_shape shape;
  const T *q, *k, *v;
  T* out;
  A* sums;
  attention_tile<A> tile;
  bool packed;  // all arrays are aligned for packs, and so is every row

  static attention_tile<A> choose_tile(const attention_shape& s, std::size_t block_memory) {
    return attention_tile<A>::choose(s.head_dim, arrays, squares, block_memory);
  }
  std::size_t shared_bytes() const { return tile.bytes(arrays, squares); }
  int64 tiles() const { return shape.batch * shape.heads * ((shape.q_len + tile.rows - 1) / tile.rows); }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const attention_shape& s = shape;
    const attention_tile<A>& t = tile;
    A* const queries = block.template shared<A>();  // [rows, head_dim]
    A* const total = queries + t.elements();        // [rows, head_dim]: sum of p v
    A* const keys = total + t.elements();           // [rows, head_dim]: keys, then values
    A* const p = keys + t.elements();               // [rows, rows]: scores, then their exponentials
    A* const high = p + t.square_elements();        // [rows]: largest score so far
    A* const sum = high + t.rows;                   // [rows]: sum of exp(score - high)
    A* const shrink = sum + t.rows;                 // [rows]: what the last tile of keys left of the sums
    const A lowest = -static_cast<A>(__builtin_inff());
    const int64 heads = s.batch * s.heads, tiles_of_head = (s.q_len + t.rows - 1) / t.rows;
    for (int64 item = block.index(); item < heads * tiles_of_head; item += block.blocks()) {
      // The last queries see the most keys, and come first.
      const int64 begin = (tiles_of_head - 1 - item / heads) * t.rows, b = item % heads / s.heads, h = item % s.heads;
      const int64 n = s.q_len - begin < t.rows ? s.q_len - begin : t.rows;
      const int64 at = ((b * s.q_len + begin) * s.heads + h) * s.head_dim;
      const int64 kv = (b * s.kv_len * s.kv_heads + h / (s.heads / s.kv_heads)) * s.head_dim;
      const int64 q_apart = s.heads * s.head_dim, kv_apart = s.kv_heads * s.head_dim;
      load_tile(block, t, n, q + at, q_apart, static_cast<A>(s.scale), queries, packed);
      zero_tile(block, t, total);
      for (int i = block.thread(); i < t.rows; i += block.threads()) high[i] = lowest, sum[i] = A(0);
      const int64 end = s.end_key(begin + n - 1);
      for (int64 k0 = s.first_key(begin, b) / t.rows * t.rows; k0 < end; k0 += t.rows) {
        const int64 here = s.kv_len - k0;
        block.sync();
        load_tile(block, t, here, k + kv + k0 * kv_apart, kv_apart, A(1), keys, packed);
        block.sync();
        for_cells(block, t, [&]<int R, int C>(int row, int column, int down, int across) {
          array_of<array_of<A, C>, R> score;
          multiply_cell<R, C>(t, queries, row, down, keys, column, across, score);
          for (int i = 0; i < R; ++i) {
            const int64 query = begin + row + i * down, first = s.first_key(query, b) - k0,
                        last = s.end_key(query) - k0;
            for (int j = 0; j < C; ++j) {
              const int key = column + j * across;
              p[(row + i * down) * t.square + key] = key >= first && key < last ? score[i][j] : lowest;
            }
          }
        });
        block.sync();
        load_tile(block, t, here, v + kv + k0 * kv_apart, kv_apart, A(1), keys, packed);
        exponentials(block, p, high, sum, shrink);
        block.sync();
        multiply_tile(
            block, t, p, keys, [&](int row) { return shrink[row]; }, total);
      }
      block.sync();
      const auto share = [&](int row) { return sum[row] == A(0) ? A(0) : 1 / sum[row]; };
      store_tile(block, t, n, total, share, out + at, q_apart, false, packed);
      A* const tops = sums + (b * s.heads + h) * s.q_len + begin;
      for (int i = block.thread(); i < n; i += block.threads()) {
        tops[i] = high[i];
        tops[heads * s.q_len + i] = sum[i] == A(0) ? A(0) : block.log(sum[i]);
      }
      block.sync();
    }
  }

 private:
  static constexpr int arrays = 3, squares = 1;

  // p = exp(p - the row's largest score), which may have grown; four lanes to a row. Rows of a warp are as far apart as
  // there are warps, four, so that its lanes are in different banks.
  template <class Block>
  WEFT_ON_DEVICE void exponentials(Block& block, A* p, A* high, A* sum, A* shrink) const {
    constexpr int lanes = 4;
    const A lowest = -static_cast<A>(__builtin_inff());
    for (int row0 = 0; row0 < tile.rows; row0 += block.threads() / lanes) {
      const int row = row0 + block.lane() / lanes * block.warps() + block.warp(), first = block.lane() % lanes;
      const bool there = row < tile.rows;
      A* const line = p + row * tile.square;
      const A before = there ? high[row] : lowest;
      A now = before, added = 0;
      if (there)
        for (int j = first; j < tile.rows; j += lanes) now = line[j] > now ? line[j] : now;
      for (int mask = 1; mask < lanes; mask *= 2) {
        const A other = block.shuffle_xor(now, mask);
        now = other > now ? other : now;
      }
      const A level = now > lowest ? now : A(0);
      if (there)
        for (int j = first; j < tile.rows; j += lanes) {
          line[j] = block.exp(line[j] - level);
          added += line[j];
        }
      for (int mask = 1; mask < lanes; mask *= 2) added += block.shuffle_xor(added, mask);
      block.sync_warp();  // all lanes of a row have read high
      if (there && first == 0) {
        const A kept = block.exp(before - level);
        shrink[row] = kept;
        sum[row] = sum[row] * kept + added;
        high[row] = now;
      }
    }
  }
};

}  // namespace weft::gpu
