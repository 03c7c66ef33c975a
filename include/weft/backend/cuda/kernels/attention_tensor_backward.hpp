// Attention's backward on tensor cores, for bf16 and fp16 and a head_dim known when compiling: one body makes dk and
// dv, and one dq. Invariant: as in attention_backward.hpp; weights and their gradients are rounded to T before they are
// multiplied with rows.
#pragma once

#include <weft/backend/cuda/kernels/attention_tensor.hpp>

namespace weft::gpu {

/// What the backward is given. All arrays are aligned to 16 bytes.
template <class T, int D, bool Documents = false>
struct attention_tensor_gradient {
  tensor_shape<D, Documents> shape;
  const T *q, *k, *v, *dout;
  const float *sums, *delta;  // [2, batch, heads, q_len], [batch, heads, q_len]

  /// What is kept of a query: the power of 2 that its scores are measured from, and delta.
  struct kept {
    float level, delta;
  };
  WEFT_ON_DEVICE kept kept_of(float high, float log_sum, float moved) const {
    return {(high + log_sum) * log2_e, moved};
  }
  /// Makes of a product its weight, and of dout v^T the score's gradient, both 0 where the key isn't seen.
  template <class Block>
  WEFT_ON_DEVICE void weigh(const Block& block, const kept& of_query, bool seen, bool only, float& product,
                            float& dp) const {
    const float p = block.fast_exp2(block.fma(product, shape.scale * log2_e, -of_query.level));
    product = seen ? p : 0;
    // A key that has all the weight, but for what p is rounded by, moves nothing, and must not by what dp and delta are
    // rounded by; a NaN stays.
    dp = !seen || only || p > 0.99999f ? 0 : p * (dp - of_query.delta);
  }
  /// The same, with the mask of batch entry b.
  template <class Block>
  WEFT_ON_DEVICE void weigh_seen(const Block& block, const kept& of_query, int b, int query, int key, float& product,
                                 float& dp) const {
    const int first = shape.first_key(b, query), end = shape.end_key(query);
    weigh(block, of_query, query < shape.q_len && key >= first && key < end, end - first == 1, product, dp);
  }
  /// The same for [keys, queries] products, `N` queries from `query` on and 16 R keys from `key` on; kept3 [3, apart]
  /// are high, log_sum and delta of the queries.
  template <int R, int N, class Block>
  WEFT_ON_DEVICE void weigh_keys(const Block& block, const float* kept3, int apart, int b, int query, int key, bool all,
                                 tensor_sums<R, N>& p, tensor_sums<R, N>& ds) const {
    const auto each = [&]<bool All>() {
      WEFT_UNROLLED for (int n = 0; n < N; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j) {
        const int at = n * 8 + block.lane() % 4 * 2 + j;
        const kept of_query = kept_of(kept3[at], kept3[apart + at], kept3[2 * apart + at]);
        WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
          float &product = p.at[r][n][2 * i + j], &dp = ds.at[r][n][2 * i + j];
          if constexpr (All)
            weigh(block, of_query, true, false, product, dp);
          else
            weigh_seen(block, of_query, b, query + at, key + r * 16 + block.lane() / 4 + i * 8, product, dp);
        }
      }
    };
    if (all)
      each.template operator()<true>();
    else
      each.template operator()<false>();
  }
};

/// As attention_keys_backward_kernel; a warp has 16 R keys, and takes Step queries of a tile at a time.
template <class T, int D, bool Documents = false, int R = D == 64 ? 2 : 1, int Queries = 64,
          int Step = D == 64 ? 32 : 64, int Warps = D == 64 ? 4 : 8, int Blocks = D == 64 ? 2 : 1>
struct attention_tensor_keys_backward_kernel {
  attention_tensor_gradient<T, D, Documents> from;
  T* dk;
  bool add_dk;
  T* dv;
  bool add_dv;

  static constexpr int threads = Warps * warp_size;
  static constexpr int blocks_at_once = Blocks;  // of a multiprocessor
  static constexpr int own = 16 * R;             // keys of a warp
  static constexpr int queries = Queries;        // of a tile
  static std::size_t shared_bytes(int in_block) {
    const int elements = (2 * (in_block / warp_size * own) + 4 * queries) * rows::stride;
    return static_cast<std::size_t>(elements) * sizeof(T) + std::size_t{2} * 3 * queries * sizeof(float);
  }
  static int64 tiles(const attention_shape& s, int in_block) {
    const int keys = in_block / warp_size * own;
    return s.batch * s.kv_heads * ((s.kv_len + keys - 1) / keys);
  }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const tensor_shape<D, Documents>& s = from.shape;
    const int keys = block.warps() * own;
    T* const tile = block.template shared<T>();        // [2, keys, D]: keys and values
    T* const stages = tile + 2 * keys * rows::stride;  // [2, 2, queries, D]: q and dout, of this tile and the next
    float* const kept = reinterpret_cast<float*>(stages + 4 * queries * rows::stride);  // [2, 3, queries]
    for (int item = static_cast<int>(block.index()); item < s.key_tiles(keys);
         item += static_cast<int>(block.blocks())) {
      const auto of = s.key_tile_of(item, keys, block.warp(), own);
      const int first = s.first_query(of.begin) / queries * queries;
      const int end = s.end_query(of.b, of.begin + keys < s.kv_len ? of.begin + keys : s.kv_len);
      const auto fetch = [&](int stage, int head, int begin) {
        T* const to = stages + stage * 2 * queries * rows::stride;
        const int64 at = s.query_at(of.b, head, begin);
        const int n = s.q_len - begin;
        rows::fetch(block, queries, n, from.q + at, s.q_apart(), to);
        rows::fetch(block, queries, n, from.dout + at, s.q_apart(), to + queries * rows::stride);
        for (int i = block.thread(); i < 3 * queries; i += block.threads()) {
          const int row = i % queries;
          const float* const x = i < queries ? from.sums : i < 2 * queries ? from.sums + s.all_rows() : from.delta;
          block.template copy_later<1>(kept + stage * 3 * queries + i,
                                       x + s.row_at(of.b, head, row < n ? begin + row : begin), row < n);
        }
      };
      rows::fetch(block, keys, s.kv_len - of.begin, from.k + s.key_at(of.b, of.h, of.begin), s.kv_apart(), tile);
      rows::fetch(block, keys, s.kv_len - of.begin, from.v + s.key_at(of.b, of.h, of.begin), s.kv_apart(),
                  tile + keys * rows::stride);
      int head = of.h * s.share, begin = first;  // all heads that read this one, and all tiles of queries in each
      bool more = begin < end;
      if (more) fetch(0, head, begin);
      block.end_copies();
      const T* const my_keys = tile + block.warp() * own * rows::stride;
      tensor_sums<R, D / 8> sum_k, sum_v;
      for (int stage = 0; more; stage ^= 1) {
        const int now = begin;
        begin += queries;
        if (begin >= end) begin = first, ++head;
        more = head < (of.h + 1) * s.share;
        if (more) fetch(stage ^ 1, head, begin);
        block.end_copies();
        block.template wait_for_copies<1>();
        block.sync();
        WEFT_ROLLED for (int step = 0; step < queries;
                         step += Step) if (!s.sees_none(of.b, now + step, Step, of.mine, own))
            see(block, my_keys, my_keys + keys * rows::stride, stages + (stage * 2 * queries + step) * rows::stride,
                kept + stage * 3 * queries + step, of.b, now + step, of.mine,
                s.sees_all(of.b, now + step, Step, of.mine, own), sum_k, sum_v);
        block.sync();
      }
      block.template wait_for_copies<0>();
      const auto t = s.key_tile_of(block.anew(item), keys, block.warp(), own);
      const int64 at = s.key_at(t.b, t.h, t.mine);
      rows::store(
          block, sum_k, [&](int, int) { return s.scale; }, t.n, dk + at, s.kv_apart(), add_dk);
      rows::store(
          block, sum_v, [](int, int) { return 1.0f; }, t.n, dv + at, s.kv_apart(), add_dv);
    }
  }

 private:
  using rows = tensor_tile<T, D>;

  // Adds what queries of batch entry b, from `begin` on, give a warp's keys, from `mine` on.
  template <class Block>
  WEFT_ON_DEVICE void see(Block& block, const T* my_keys, const T* my_values, const T* of_queries, const float* kept,
                          int b, int begin, int mine, bool all, tensor_sums<R, D / 8>& sum_k,
                          tensor_sums<R, D / 8>& sum_v) const {
    const T* const douts = of_queries + queries * rows::stride;
    // [keys, queries]: a column is a query
    auto p = rows::template times_rows<R, Step / 8>(
        block, [&](int r, int i) { return rows::columns_of(block, my_keys + r * 16 * rows::stride, i); }, of_queries);
    auto ds = rows::template times_rows<R, Step / 8>(
        block, [&](int r, int i) { return rows::columns_of(block, my_values + r * 16 * rows::stride, i); }, douts);
    from.weigh_keys(block, kept, queries, b, begin, mine, all, p, ds);
    const auto weights = rows::rounded(block, p), moves = rows::rounded(block, ds);
    rows::template add_product<Step / 16>(
        block, [&](int r, int i) { return weights.at[r][i]; }, douts, sum_v);
    rows::template add_product<Step / 16>(
        block, [&](int r, int i) { return moves.at[r][i]; }, of_queries, sum_k);
  }
};

/// As attention_queries_backward_kernel; a warp has 16 R queries, and keeps q and dout in registers where Held.
template <class T, int D, bool Documents = false, int R = 2, int Keys = D == 64 ? 64 : 32, int Step = 32, int Warps = 4,
          int Blocks = 2, bool Held = D == 64>
struct attention_tensor_queries_backward_kernel {
  attention_tensor_gradient<T, D, Documents> from;
  T* dq;
  bool add_dq;

  static constexpr int threads = Warps * warp_size;
  static constexpr int blocks_at_once = Blocks;  // of a multiprocessor
  static constexpr int own = 16 * R;             // queries of a warp
  static constexpr int keys = Keys;              // of a tile
  static std::size_t shared_bytes(int in_block) {
    return static_cast<std::size_t>((2 * (in_block / warp_size * own) + 4 * keys) * rows::stride) * sizeof(T);
  }
  static int64 tiles(const attention_shape& s, int in_block) {
    const int queries = in_block / warp_size * own;
    return s.batch * s.heads * ((s.q_len + queries - 1) / queries);
  }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const tensor_shape<D, Documents>& s = from.shape;
    const int queries = block.warps() * own;
    T* const tile = block.template shared<T>();           // [2, queries, D]: q and dout
    T* const stages = tile + 2 * queries * rows::stride;  // [2, 2, keys, D]: keys and values, of this tile and the next
    const T* const my_queries = tile + block.warp() * own * rows::stride;
    const T* const my_douts = my_queries + queries * rows::stride;
    for (int item = static_cast<int>(block.index()); item < s.query_tiles(queries);
         item += static_cast<int>(block.blocks())) {
      const auto t = s.query_tile_of(item, queries, block.warp(), own);
      const int end = s.end_key(t.begin + queries - 1 < s.q_len ? t.begin + queries - 1 : s.q_len - 1);
      const int64 kv = s.key_at(t.b, t.h / s.share, 0);
      const auto fetch = [&](int stage, int k0) {
        T* const to = stages + stage * 2 * keys * rows::stride;
        const int64 at = kv + int64{k0} * s.kv_apart();
        rows::fetch(block, keys, s.kv_len - k0, from.k + at, s.kv_apart(), to);
        rows::fetch(block, keys, s.kv_len - k0, from.v + at, s.kv_apart(), to + keys * rows::stride);
      };
      const int64 first = s.query_at(t.b, t.h, t.begin);
      rows::fetch(block, queries, s.q_len - t.begin, from.q + first, s.q_apart(), tile);
      rows::fetch(block, queries, s.q_len - t.begin, from.dout + first, s.q_apart(), tile + queries * rows::stride);
      block.end_copies();
      array_of<array_of<typename attention_tensor_gradient<T, D, Documents>::kept, 2>, R> kept = {};
      WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
        const int row = r * 16 + block.lane() / 4 + i * 8;
        if (row >= t.n) continue;
        const int at_row = s.row_at(t.b, t.h, t.mine + row);
        kept[r][i] = from.kept_of(from.sums[at_row], from.sums[s.all_rows() + at_row], from.delta[at_row]);
      }
      tensor_sums<R, D / 8> sum;
      int k0 = s.first_key(t.b, t.begin) / keys * keys;
      if (k0 < end) fetch(0, k0);
      block.end_copies();
      tensor_rows<R, Held ? D / 16 : 1> held_q, held_dout;
      if constexpr (Held) {
        block.template wait_for_copies<1>();
        block.sync();
        WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int i = 0; i < D / 16; ++i) {
          held_q.at[r][i] = rows::columns_of(block, my_queries + r * 16 * rows::stride, i);
          held_dout.at[r][i] = rows::columns_of(block, my_douts + r * 16 * rows::stride, i);
        }
      }
      for (int stage = 0; k0 < end; k0 += keys, stage ^= 1) {
        if (k0 + keys < end) fetch(stage ^ 1, k0 + keys);
        block.end_copies();
        block.template wait_for_copies<1>();
        block.sync();
        WEFT_ROLLED for (int step = 0; step < keys; step += Step) {
          const T* const of_keys = stages + (stage * 2 * keys + step) * rows::stride;
          if (s.sees_none(t.b, t.mine, own, k0 + step, Step)) continue;
          auto p = rows::template times_rows<R, Step / 8>(
              block,
              [&](int r, int i) {
                if constexpr (Held)
                  return held_q.at[r][i];
                else
                  return rows::columns_of(block, my_queries + r * 16 * rows::stride, i);
              },
              of_keys);
          auto ds = rows::template times_rows<R, Step / 8>(
              block,
              [&](int r, int i) {
                if constexpr (Held)
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
                from.weigh_seen(block, kept[r][i / 2], t.b, t.mine + r * 16 + block.lane() / 4 + i / 2 * 8,
                                k0 + step + n * 8 + block.lane() % 4 * 2 + i % 2, product, dp);
            }
          };
          if (s.sees_all(t.b, t.mine, own, k0 + step, Step))
            weigh.template operator()<true>();
          else
            weigh.template operator()<false>();
          const auto moves = rows::rounded(block, ds);
          rows::template add_product<Step / 16>(
              block, [&](int r, int i) { return moves.at[r][i]; }, of_keys, sum);
        }
        block.sync();
      }
      block.template wait_for_copies<0>();
      const auto at = s.query_tile_of(block.anew(item), queries, block.warp(), own);
      rows::store(
          block, sum, [&](int, int) { return s.scale; }, at.n, dq + s.query_at(at.b, at.h, at.mine), s.q_apart(),
          add_dq);
      // Where no key was seen, the loop's barrier doesn't stand between what was read of the queries and the next tile.
      if constexpr (Held)
        if (item + static_cast<int>(block.blocks()) < s.query_tiles(queries)) block.sync();
    }
  }

 private:
  using rows = tensor_tile<T, D>;
};

}  // namespace weft::gpu
