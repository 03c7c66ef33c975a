// Attention's forward on tensor cores, as FlashAttention-2 has it (Dao 2023): for bf16 and fp16 and a head_dim known
// when compiling. Invariant: as in attention.hpp; the weights are rounded to T before they are multiplied with values,
// and what they sum to is not.
// Of n numbers of queries in r rows, m of keys, each row of which sees k keys, with sums in A:
//   attention_tensor_kernel: (2 n + 2 m) T + 2 A r bytes, 4 n k FLOPs
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/cuda/kernels/attention_tile.hpp>
#include <weft/backend/cuda/kernels/attention_tiling.hpp>
#include <weft/backend/cuda/kernels/tensor_tile.hpp>

namespace weft::gpu {

/// log2(e): exponentials are taken as powers of 2.
inline constexpr float log2_e = 1.4426950408889634f;

/// attention_shape as the tensor cores' kernels need it, in 32 bits; and where rows of D numbers lie. Documents:
/// whether there are any; where there are none, nothing is left of them, since the registers are all in use.
template <int D, bool Documents = false>
struct tensor_shape {
  int batch, q_len, kv_len, heads, kv_heads, share;  // share: heads that read one of k and v
  int shift, window;         // query i sees `window` keys at most, the last of which comes before i + shift
  float scale, power_scale;  // of scores, and as powers of 2
  const std::int32_t* documents;

  explicit tensor_shape(const attention_shape& s)
      : batch(static_cast<int>(s.batch)),
        q_len(static_cast<int>(s.q_len)),
        kv_len(static_cast<int>(s.kv_len)),
        heads(static_cast<int>(s.heads)),
        kv_heads(static_cast<int>(s.kv_heads)),
        share(heads / kv_heads),
        shift(s.causal ? kv_len - q_len + 1 : kv_len),
        window(!s.causal                             ? q_len + kv_len
               : s.window > 0 && s.window < s.kv_len ? static_cast<int>(s.window)
                                                     : kv_len),
        scale(static_cast<float>(s.scale)),
        power_scale(scale * log2_e),
        documents(s.documents) {}
  /// Whether 32 bits are enough, and the largest product is the largest score.
  static bool fits(const attention_shape& s) {
    return s.scale > 0 && s.batch * s.heads * s.q_len < 1 << 30 && s.batch * s.heads * s.kv_len < 1 << 30;
  }

  // As in attention_shape, of batch entry b.
  WEFT_ON_DEVICE int end_key(int i) const {
    const int end = i + shift < kv_len ? i + shift : kv_len;
    return end > 0 ? end : 0;
  }
  WEFT_ON_DEVICE int first_key(int b, int i) const {
    const int end = end_key(i), first = end > window ? end - window : 0;
    if constexpr (!Documents) return first;
    const int begin = documents[b * q_len + (i < q_len ? i : q_len - 1)], held = begin < end ? begin : end - 1;
    return held > first ? held : first;
  }
  /// The queries that may see a key of [begin, end): first_query ... end_query - 1.
  WEFT_ON_DEVICE int first_query(int begin) const { return begin < shift ? 0 : begin - shift + 1; }
  WEFT_ON_DEVICE int end_query(int b, int end) const {
    const int after = end + (window - shift), last = after < q_len ? after : q_len;
    return Documents ? end_of_document(documents + b * q_len, end, last, end - 1) : last;
  }
  /// Whether none of so many queries sees any of so many keys, and whether all of them see all.
  WEFT_ON_DEVICE bool sees_none(int b, int query, int queries, int key, int keys) const {
    return query >= q_len || key >= end_key(query + queries - 1) || key + keys <= first_key(b, query);
  }
  WEFT_ON_DEVICE bool sees_all(int b, int query, int queries, int key, int keys) const {
    return query + queries <= q_len && key + keys <= end_key(query) && key >= first_key(b, query + queries - 1);
  }

  /// Tile number `item` of all heads', of whose `queries` queries `own` belong to a warp: n of them, from `mine` on.
  /// The last queries see the most keys, and come first.
  struct query_tile {
    int b, h, begin, mine, n;
  };
  WEFT_ON_DEVICE query_tile query_tile_of(int item, int queries, int warp, int own) const {
    const int all = batch * heads, head = item % all, tiles_of_head = (q_len + queries - 1) / queries;
    const int begin = (tiles_of_head - 1 - item / all) * queries, mine = begin + warp * own;
    return {head / heads, head % heads, begin, mine, q_len - mine};
  }
  WEFT_ON_DEVICE int query_tiles(int queries) const { return (q_len + queries - 1) / queries * batch * heads; }
  /// The same of keys, in their order.
  struct key_tile {
    int b, h, begin, mine, n;
  };
  WEFT_ON_DEVICE key_tile key_tile_of(int item, int keys, int warp, int own) const {
    const int all = batch * kv_heads, head = item % all, begin = item / all * keys, mine = begin + warp * own;
    return {head / kv_heads, head % kv_heads, begin, mine, kv_len - mine};
  }
  WEFT_ON_DEVICE int key_item_of(int b, int h, int mine, int keys) const {
    return (mine / keys * batch + b) * kv_heads + h;
  }
  WEFT_ON_DEVICE int key_tiles(int keys) const { return (kv_len + keys - 1) / keys * batch * kv_heads; }

  WEFT_ON_DEVICE int64 query_at(int b, int h, int i) const { return ((int64{b} * q_len + i) * heads + h) * D; }
  WEFT_ON_DEVICE int64 key_at(int b, int h, int j) const { return int64{key_row_at(b, h, j)} * D; }
  WEFT_ON_DEVICE int key_row_at(int b, int h, int j) const { return (b * kv_len + j) * kv_heads + h; }
  WEFT_ON_DEVICE int q_apart() const { return heads * D; }
  WEFT_ON_DEVICE int kv_apart() const { return kv_heads * D; }
  /// In the arrays of numbers that are kept of each query, and how many of them there are.
  WEFT_ON_DEVICE int row_at(int b, int h, int i) const { return (b * heads + h) * q_len + i; }
  WEFT_ON_DEVICE int all_rows() const { return batch * heads * q_len; }
};

/// As attention_kernel. All arrays are aligned to 16 bytes.
template <class T, int D, bool Documents = false>
struct attention_tensor_kernel {
  tensor_shape<D, Documents> shape;
  const T *q, *k, *v;
  T* out;
  float* sums;

  static constexpr attention_tiling tiling = attention_tilings<D>::forward;
  static constexpr int threads = tiling.warps * warp_size;
  static constexpr int blocks_at_once = tiling.blocks;  // of a multiprocessor
  static constexpr int own = 16 * tiling.r;             // queries of a warp
  static constexpr int keys = tiling.tile;
  static_assert((keys & (keys - 1)) == 0);
  static constexpr std::size_t shared_bytes(int in_block) {
    return static_cast<std::size_t>((in_block / warp_size * own + 4 * keys) * rows::stride) * sizeof(T);
  }
  static int64 tiles(const attention_shape& s, int in_block) {
    const int queries = in_block / warp_size * own;
    return s.batch * s.heads * ((s.q_len + queries - 1) / queries);
  }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const tensor_shape<D, Documents>& s = shape;
    const int queries = block.warps() * own;
    const auto warp = [&] { return block.anew(block.warp()); };
    T* const tile = block.template shared<T>();       // [queries, D]
    T* const stages = tile + queries * rows::stride;  // [2, 2, keys, D]: keys and values, of tiles in turn
    for (int item = static_cast<int>(block.index()); item < s.query_tiles(block.anew(block.warps()) * own);
         item += static_cast<int>(block.blocks())) {
      const auto t = s.query_tile_of(item, queries, warp(), own);
      const int end = s.end_key(t.begin + queries - 1 < s.q_len ? t.begin + queries - 1 : s.q_len - 1);
      const int kv = s.key_row_at(t.b, t.h / s.share, 0);
      const auto fetch = [&](int k0) {
        rows::fetch(block, keys, s.kv_len - k0, int64{kv + k0 * s.kv_heads} * D, s.kv_apart(),
                    stages + (k0 & keys) * 2 * rows::stride, k, v);
      };
      rows::fetch(block, queries, s.q_len - t.begin, s.query_at(t.b, t.h, t.begin), s.q_apart(), tile, q);
      block.end_copies();
      progress so_far;
      int k0 = s.first_key(t.b, t.begin) / keys * keys;
      if (k0 < end) fetch(k0);
      block.end_copies();
      tensor_rows<R, tiling.held ? D / 16 : 1> held;
      if constexpr (tiling.held) {
        block.template wait_for_copies<1>();
        block.sync();
        WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int i = 0; i < D / 16; ++i) held.at[r][i] =
            rows::columns_of(block, tile + (warp() * own + r * 16) * rows::stride, i);
      }
      const auto query = [&](int r, int i) {
        if constexpr (tiling.held)
          return held.at[r][i];
        else
          return rows::columns_of(block, tile + (warp() * own + r * 16) * rows::stride, i);
      };
      for (; k0 < end; k0 += keys) {
        if (k0 + keys < end) fetch(k0 + keys);
        block.end_copies();
        block.template wait_for_copies<1>();
        block.sync();
        const int b = Documents ? block.anew(t.b) : t.b, mine = block.anew(t.mine);
        if (!s.sees_none(b, mine, own, k0, keys))
          see(block, query, stages + (k0 & keys) * 2 * rows::stride, b, mine, k0, s.sees_all(b, mine, own, k0, keys),
              so_far);
        block.sync();
      }
      block.template wait_for_copies<0>();
      const auto at = s.query_tile_of(block.anew(item), block.anew(block.warps()) * own, warp(), own);
      WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
        float sum = so_far.sum[r][i];
        for (int mask = 1; mask < 4; mask *= 2) sum += block.shuffle_xor(sum, mask);
        const int lane = block.anew(block.lane()), row = r * 16 + lane / 4 + i * 8;
        if (row < at.n && lane % 4 == 0) {
          float* const top = sums + s.row_at(at.b, at.h, at.mine + row);
          *top = so_far.high[r][i] * s.scale;
          top[s.all_rows()] = sum == 0 ? 0 : block.log(sum);
        }
        const float share = sum == 0 ? 0 : 1 / sum;
        WEFT_UNROLLED for (int n = 0; n < D / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j)
            so_far.total.at[r][n][2 * i + j] *= share;
      }
      rows::store(
          block, so_far.total, [](int, int) { return 1.0f; }, at.n, out + s.query_at(at.b, at.h, at.mine), s.q_apart(),
          false, stages + warp() * own * rows::stride);
      if (item + static_cast<int>(block.blocks()) < s.query_tiles(block.anew(block.warps()) * own))
        block.sync();  // rows went by way of `stages`
    }
  }

 private:
  static constexpr int R = tiling.r;
  using rows = tensor_tile<T, D>;
  struct progress {
    tensor_sums<R, D / 8> total;               // of p v
    array_of<array_of<float, 2>, R> high;      // the largest q k of each of this lane's rows, still to be scaled
    array_of<array_of<float, 2>, R> sum = {};  // of exp(score - high), this lane's part
    WEFT_ON_DEVICE progress() { WEFT_UNROLLED for (int r = 0; r < R; ++r) high[r][0] = high[r][1] = -__builtin_inff(); }
  };

  // Takes a tile of keys, and of values behind them, into what is known of a warp's queries from `mine` on, of batch
  // entry b.
  template <class Block, class F>
  WEFT_ON_DEVICE void see(Block& block, const F& query, const T* tile, int b, int mine, int k0, bool all,
                          progress& so_far) const {
    auto p = rows::template times_rows<R, keys / 8>(block, query, tile);
    if (!all) WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
        const int lane = block.anew(block.lane()), of = mine + r * 16 + lane / 4 + i * 8, key = k0 + lane % 4 * 2;
        const int first = shape.first_key(b, of) - key, end = shape.end_key(of) - key;
        WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n)
            WEFT_UNROLLED for (int j = 0; j < 2; ++j) if (n * 8 + j < first || n * 8 + j >= end)
                p.at[r][n][2 * i + j] = -__builtin_inff();
      }
    const float scale = shape.power_scale;
    array_of<array_of<float, 2>, R> kept;
    // Never so. To ask has the sums taken before the products, behind which their terms would still be in registers.
    bool never = false;
    WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
      const float before = so_far.high[r][i];
      float now = before;
      WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j) now =
          block.larger(now, p.at[r][n][2 * i + j]);
      for (int mask = 1; mask < 4; mask *= 2) now = block.larger(now, block.shuffle_xor(now, mask));
      const float level = now > -__builtin_inff() ? now * scale : 0;
      kept[r][i] = block.fast_exp2(block.fma(before, scale, -level));
      float added = 0;
      WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j) {
        float& x = p.at[r][n][2 * i + j];
        x = block.fast_exp2(block.fma(x, scale, -level));
        added += x;
      }
      so_far.high[r][i] = now;
      so_far.sum[r][i] = so_far.sum[r][i] * kept[r][i] + added;
      never = never || so_far.sum[r][i] < 0;
    }
    WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
      const float factor = never ? 0 : kept[r][i];
      WEFT_UNROLLED for (int n = 0; n < D / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j)
          so_far.total.at[r][n][2 * i + j] *= factor;
    }
    const auto weights = rows::rounded(block, p);
    rows::template add_product<keys / 16>(
        block, [&](int r, int i) { return weights.at[r][i]; }, tile + keys * rows::stride, so_far.total);
  }
};

}  // namespace weft::gpu
