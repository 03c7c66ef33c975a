// Attention's backward on tensor cores: dq. Invariant: as in attention_tensor_backward.hpp.
// Of n numbers of queries in r rows, m of keys, each row of which sees k keys, with sums in A:
//   attention_tensor_queries_backward_kernel: (3 n + 2 m) T + 3 A r bytes, 6 n k FLOPs
#pragma once

#include <weft/backend/cuda/kernels/attention_tensor_backward.hpp>

namespace weft::gpu {

/// As attention_queries_backward_kernel. All arrays are aligned to 16 bytes.
template <class T, int D, bool Documents = false>
struct attention_tensor_queries_backward_kernel {
  attention_tensor_gradient<T, D, Documents> from;
  T* dq;
  bool add_dq;

  static constexpr attention_tiling tiling = attention_tilings<D>::of_queries;
  static constexpr int threads = tiling.warps * warp_size;
  static constexpr int blocks_at_once = tiling.blocks;  // of a multiprocessor
  static constexpr int own = 16 * tiling.r;             // queries of a warp,
  static constexpr int sharing = tiling.sharing;        // and of so many warps
  static constexpr int keys = tiling.tile;
  static_assert((keys & (keys - 1)) == 0);
  static constexpr int queries_of(int in_block) { return in_block / warp_size / sharing * own; }
  static constexpr std::size_t shared_bytes(int in_block) {
    const int queries = queries_of(in_block), exchanged = sharing > 1 ? queries * pairs::stride : 0;
    return static_cast<std::size_t>((2 * queries + 4 * keys) * rows::stride + exchanged) * sizeof(T);
  }
  static int64 tiles(const attention_shape& s, int in_block) {
    const int queries = queries_of(in_block);
    return s.batch * s.heads * ((s.q_len + queries - 1) / queries);
  }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const tensor_shape<D, Documents>& s = from.shape;
    const int queries = queries_of(block.threads()), mine = block.warp() / sharing * own;
    T* const tile = block.template shared<T>();           // [2, queries, D]: q and dout
    T* const stages = tile + 2 * queries * rows::stride;  // [2, 2, keys, D]: keys and values, of tiles in turn
    const T* const my_queries = tile + mine * rows::stride;
    const T* const my_douts = my_queries + queries * rows::stride;
    T* const exchanged = stages + 4 * keys * rows::stride + mine * pairs::stride;  // of [queries, keys]
    for (int item = static_cast<int>(block.index()); item < s.query_tiles(queries_of(block.anew(block.threads())));
         item += static_cast<int>(block.blocks())) {
      const auto t = s.query_tile_of(item, queries, block.warp() / sharing, own);
      const int end = s.end_key(t.begin + queries - 1 < s.q_len ? t.begin + queries - 1 : s.q_len - 1);
      const int kv = s.key_row_at(t.b, t.h / s.share, 0);
      const auto fetch = [&](int k0) {
        rows::fetch(block, keys, s.kv_len - k0, int64{kv + k0 * s.kv_heads} * D, s.kv_apart(),
                    stages + (k0 & keys) * 2 * rows::stride, from.k, from.v);
      };
      rows::fetch(block, queries, s.q_len - t.begin, s.query_at(t.b, t.h, t.begin), s.q_apart(), tile, from.q,
                  from.dout);
      block.end_copies();
      array_of<array_of<typename attention_tensor_gradient<T, D, Documents>::kept, 2>, R> kept = {};
      WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
        const int row = r * 16 + block.lane() / 4 + i * 8;
        if (row >= t.n) continue;
        const int at_row = s.row_at(t.b, t.h, t.mine + row);
        kept[r][i] = from.kept_of(from.sums[at_row], from.sums[s.all_rows() + at_row], from.delta[at_row]);
      }
      tensor_sums<R, columns / 8> sum;
      int k0 = s.first_key(t.b, t.begin) / keys * keys;
      if (k0 < end) fetch(k0);
      block.end_copies();
      tensor_rows<R, tiling.held ? D / 16 : 1> held_q, held_dout;
      if constexpr (tiling.held) {
        block.template wait_for_copies<1>();
        block.sync();
        WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int i = 0; i < D / 16; ++i) {
          held_q.at[r][i] = rows::columns_of(block, my_queries + r * 16 * rows::stride, i);
          held_dout.at[r][i] = rows::columns_of(block, my_douts + r * 16 * rows::stride, i);
        }
      }
      for (; k0 < end; k0 += keys) {
        if (k0 + keys < end) fetch(k0 + keys);
        block.end_copies();
        block.template wait_for_copies<1>();
        block.sync();
        WEFT_ROLLED for (int steps = 0; steps < keys; steps += sharing * Step) {
          const int step = steps + part(block) * Step;
          const T* const of_keys = stages + ((k0 & keys) * 2 + step) * rows::stride;
          const int b = Documents ? block.anew(t.b) : t.b, of_mine = block.anew(t.mine);
          if (s.sees_none(b, of_mine, own, k0 + steps, sharing * Step)) continue;  // they weigh all, or none
          auto p = rows::template times_rows<R, Step / 8>(
              block,
              [&](int r, int i) {
                if constexpr (tiling.held)
                  return held_q.at[r][i];
                else
                  return rows::columns_of(block, my_queries + r * 16 * rows::stride, i);
              },
              of_keys);
          auto ds = rows::template times_rows<R, Step / 8>(
              block,
              [&](int r, int i) {
                if constexpr (tiling.held)
                  return held_dout.at[r][i];
                else
                  return rows::columns_of(block, my_douts + r * 16 * rows::stride, i);
              },
              of_keys + keys * rows::stride);
          const auto weigh = [&]<bool All>() {
            WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int n = 0; n < Step / 8; ++n)
                WEFT_UNROLLED for (int i = 0; i < 4; ++i) {
              float &product = p.at[r][n][i], &dp = ds.at[r][n][i];
              if constexpr (All)
                from.weigh(block, kept[r][i / 2], true, false, product, dp);
              else
                from.weigh_seen(block, kept[r][i / 2], b, of_mine + r * 16 + block.lane() / 4 + i / 2 * 8,
                                k0 + step + n * 8 + block.lane() % 4 * 2 + i % 2, product, dp);
            }
          };
          if (s.sees_all(b, of_mine, own, k0 + step, Step))
            weigh.template operator()<true>();
          else
            weigh.template operator()<false>();
          const auto moves = rows::rounded(block, ds);
          if constexpr (sharing == 1)
            rows::template add_product<Step / 16>(
                block, [&](int r, int i) { return moves.at[r][i]; }, of_keys, sum);
          else
            pairs::keep(block, moves, exchanged + step);
        }
        if constexpr (sharing > 1) {
          block.sync();
          if (!s.sees_none(t.b, t.mine, own, k0, keys))
            rows::template add_product<keys / 16>(
                block, [&](int r, int i) { return pairs::columns_of(block, exchanged + r * 16 * pairs::stride, i); },
                stages + (k0 & keys) * 2 * rows::stride + part(block) * columns, sum);
        }
        block.sync();
      }
      block.template wait_for_copies<0>();
      const auto at =
          s.query_tile_of(block.anew(item), queries_of(block.anew(block.threads())), block.warp() / sharing, own);
      rows::store(
          block, sum, [&](int, int) { return s.scale; }, at.n,
          dq + s.query_at(at.b, at.h, at.mine) + part(block) * columns, s.q_apart(), add_dq,
          stages + mine * rows::stride + part(block) * columns);
      if (item + static_cast<int>(block.blocks()) < s.query_tiles(queries_of(block.anew(block.threads()))))
        block.sync();  // rows went by way of `stages`
    }
  }

 private:
  static constexpr int R = tiling.r, Step = tiling.step, columns = D / sharing;  // that a warp adds up
  static_assert(sharing == 1 || sharing * Step == keys);
  using rows = tensor_tile<T, D>;
  using pairs = tensor_tile<T, keys>;  // a row is a query, a column a key

  // Which one this warp is of those that have its queries.
  template <class Block>
  static WEFT_ON_DEVICE int part(const Block& block) {
    return block.warp() % sharing;
  }
};

}  // namespace weft::gpu
