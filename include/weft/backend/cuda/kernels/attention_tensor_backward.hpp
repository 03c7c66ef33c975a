// Attention's backward on tensor cores, for bf16 and fp16 and a head_dim known when compiling: what it makes of a
// product, and dk and dv; attention_tensor_backward_queries.hpp has dq. Invariant: as in attention_backward.hpp;
// weights and their gradients are rounded to T before they are multiplied with rows.
// Of n numbers of queries in r rows, m of keys, each row of which sees k keys, with sums in A:
//   attention_tensor_keys_backward_kernel: (2 n + 4 m) T + 3 A r bytes, 8 n k FLOPs
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
  /// The weight that a product becomes, if the key is seen.
  template <class Block>
  WEFT_ON_DEVICE float weight(const Block& block, float level, float product) const {
    return block.fast_exp2(block.fma(product, shape.power_scale, -level));
  }
  /// The score's gradient, of its weight, of dout v^T and of its query's delta.
  WEFT_ON_DEVICE float moved(float of_query, bool seen, bool only, float p, float dp) const {
    // A key that has all the weight, but for what p is rounded by, moves nothing, and must not by what dp and delta are
    // rounded by; a NaN stays.
    return !seen || only || p > 0.99999f ? 0 : p * (dp - of_query);
  }
  /// Whether a query of batch entry b sees a key, and whether it sees one only.
  struct sight {
    bool seen, only;
  };
  WEFT_ON_DEVICE sight sight_of(int b, int query, int key) const {
    const int first = shape.first_key(b, query), end = shape.end_key(query);
    return {query < shape.q_len && key >= first && key < end, end - first == 1};
  }
  /// Makes of a product its weight, and of dout v^T the score's gradient.
  template <class Block>
  WEFT_ON_DEVICE void weigh(const Block& block, const kept& of_query, bool seen, bool only, float& product,
                            float& dp) const {
    const float p = weight(block, of_query.level, product);
    product = seen ? p : 0;
    dp = moved(of_query.delta, seen, only, p, dp);
  }
  /// The same, with the mask of batch entry b.
  template <class Block>
  WEFT_ON_DEVICE void weigh_seen(const Block& block, const kept& of_query, int b, int query, int key, float& product,
                                 float& dp) const {
    const sight of = sight_of(b, query, key);
    weigh(block, of_query, of.seen, of.only, product, dp);
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

/// As attention_keys_backward_kernel. All arrays are aligned to 16 bytes.
template <class T, int D, bool Documents = false>
struct attention_tensor_keys_backward_kernel {
  attention_tensor_gradient<T, D, Documents> from;
  T* dk;
  bool add_dk;
  T* dv;
  bool add_dv;

  static constexpr attention_tiling tiling = attention_tilings<D>::of_keys;
  static constexpr int threads = tiling.warps * warp_size;
  static constexpr int blocks_at_once = tiling.blocks;  // of a multiprocessor
  static constexpr int own = 16 * tiling.r;             // keys of a warp,
  static constexpr int sharing = tiling.sharing;        // and of so many warps
  static constexpr int queries = tiling.tile;
  static constexpr int keys_of(int in_block) { return in_block / warp_size / sharing * own; }
  static constexpr std::size_t shared_bytes(int in_block) {
    const int keys = keys_of(in_block), exchanged = sharing > 1 ? 2 * keys * pairs::stride : 0;
    const int elements = (2 * keys + 4 * queries) * rows::stride + exchanged;
    return static_cast<std::size_t>(elements) * sizeof(T) + std::size_t{2} * 3 * queries * sizeof(float);
  }
  static int64 tiles(const attention_shape& s, int in_block) {
    const int keys = keys_of(in_block);
    return s.batch * s.kv_heads * ((s.kv_len + keys - 1) / keys);
  }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const tensor_shape<D, Documents>& s = from.shape;
    const int keys = keys_of(block.threads());
    T* const tile = block.template shared<T>();        // [2, keys, D]: keys and values
    T* const stages = tile + 2 * keys * rows::stride;  // [2, 2, queries, D]: q and dout, of this tile and the next
    float* const kept = reinterpret_cast<float*>(stages + 4 * queries * rows::stride);  // [2, 3, queries]
    for (int item = static_cast<int>(block.index()); item < s.key_tiles(keys_of(block.anew(block.threads())));) {
      const auto of = s.key_tile_of(item, keys, block.warp() / sharing, own);
      const auto first = [&] {
        return s.first_query(block.anew(of.mine) - block.warp() / sharing * own) / queries * queries;
      };
      const int end = s.end_query(of.b, of.begin + keys < s.kv_len ? of.begin + keys : s.kv_len);
      const auto fetch = [&](int stage, int head, int begin) {
        const int n = s.q_len - begin;
        rows::fetch(block, queries, n, s.query_at(of.b, head, begin), s.q_apart(),
                    stages + stage * 2 * queries * rows::stride, from.q, from.dout);
        for (int i = block.thread(); i < 3 * queries; i += block.threads()) {
          const int row = i % queries;
          const float* const x = i < queries ? from.sums : i < 2 * queries ? from.sums + s.all_rows() : from.delta;
          block.template copy_later<1>(kept + stage * 3 * queries + i,
                                       x + s.row_at(of.b, head, row < n ? begin + row : begin), row < n);
        }
      };
      rows::fetch(block, keys, s.kv_len - of.begin, s.key_at(of.b, of.h, of.begin), s.kv_apart(), tile, from.k, from.v);
      int head = of.h * s.share, begin = first();  // all heads that read this one, and all tiles of queries in each
      bool more = begin < end;
      if (more) fetch(0, head, begin);
      block.end_copies();
      const T* const my_keys = tile + block.warp() / sharing * own * rows::stride;
      tensor_sums<R, columns / 8> sum_k, sum_v;
      for (int stage = 0; more; stage ^= 1) {
        const int now = begin;
        begin += queries;
        if (begin >= end) begin = first(), ++head;
        more = head < (of.h + 1) * s.share;
        if (more) fetch(stage ^ 1, head, begin);
        block.end_copies();
        block.template wait_for_copies<1>();
        block.sync();
        WEFT_ROLLED for (int steps = 0; steps < queries; steps += sharing * Step) {
          const int step = steps + part(block) * Step;
          const int b = Documents ? block.anew(of.b) : of.b, mine = Documents ? block.anew(of.mine) : of.mine;
          if (s.sees_none(b, now + steps, sharing * Step, mine, own)) continue;  // they weigh all, or none
          see(block, my_keys, my_keys + keys * rows::stride, stages + (stage * 2 * queries + step) * rows::stride,
              kept + stage * 3 * queries + step, b, now + step, mine, s.sees_all(b, now + step, Step, mine, own), sum_k,
              sum_v);
        }
        if constexpr (sharing > 1) {
          block.sync();
          if (!s.sees_none(of.b, now, queries, of.mine, own))
            add(block, stages + stage * 2 * queries * rows::stride + part(block) * columns, sum_k, sum_v);
        }
        block.sync();
      }
      block.template wait_for_copies<0>();
      const int mine = block.anew(of.mine), n = s.kv_len - mine;
      const int64 at = s.key_at(of.b, of.h, mine) + part(block) * columns;
      T* const stage = stages + block.warp() / sharing * own * rows::stride + part(block) * columns;
      rows::store(
          block, sum_k, [&](int, int) { return s.scale; }, n, dk + at, s.kv_apart(), add_dk, stage);
      rows::store(
          block, sum_v, [](int, int) { return 1.0f; }, n, dv + at, s.kv_apart(), add_dv, stage + keys * rows::stride);
      item = s.key_item_of(of.b, of.h, mine, keys_of(block.anew(block.threads()))) + static_cast<int>(block.blocks());
      if (item < s.key_tiles(keys_of(block.anew(block.threads())))) block.sync();  // rows went by way of `stages`
    }
  }

 private:
  static constexpr int R = tiling.r, Step = tiling.step, columns = D / sharing;  // that a warp adds up
  static_assert(sharing == 1 || sharing * Step == queries);
  using rows = tensor_tile<T, D>;
  using pairs = tensor_tile<T, queries>;  // a row is a key, a column a query

  // Which one this warp is of those that have its keys.
  template <class Block>
  static WEFT_ON_DEVICE int part(const Block& block) {
    return block.warp() % sharing;
  }
  // Behind all else: [2, keys, queries], weights and their gradients, from a warp's keys on.
  template <class Block>
  static WEFT_ON_DEVICE T* exchanged(Block& block) {
    const int keys = keys_of(block.threads());
    float* const kept = reinterpret_cast<float*>(block.template shared<T>() + (2 * keys + 4 * queries) * rows::stride);
    return reinterpret_cast<T*>(kept + 2 * 3 * queries) + block.warp() / sharing * own * pairs::stride;
  }

  // Adds what queries of batch entry b, from `begin` on, give a warp's keys, from `mine` on; where warps share, puts
  // the weights and their gradients where `add` takes them.
  template <class Block>
  WEFT_ON_DEVICE void see(Block& block, const T* my_keys, const T* my_values, const T* of_queries, const float* kept,
                          int b, int begin, int mine, bool all, tensor_sums<R, columns / 8>& sum_k,
                          tensor_sums<R, columns / 8>& sum_v) const {
    const T* const douts = of_queries + queries * rows::stride;
    // [keys, queries]: a column is a query
    auto p = rows::template times_rows<R, Step / 8>(
        block, [&](int r, int i) { return rows::columns_of(block, my_keys + r * 16 * rows::stride, i); }, of_queries);
    auto ds = rows::template times_rows<R, Step / 8>(
        block, [&](int r, int i) { return rows::columns_of(block, my_values + r * 16 * rows::stride, i); }, douts);
    from.weigh_keys(block, kept, queries, b, begin, mine, all, p, ds);
    const auto weights = rows::rounded(block, p), moves = rows::rounded(block, ds);
    if constexpr (sharing == 1) {
      rows::template add_product<Step / 16>(
          block, [&](int r, int i) { return weights.at[r][i]; }, douts, sum_v);
      rows::template add_product<Step / 16>(
          block, [&](int r, int i) { return moves.at[r][i]; }, of_queries, sum_k);
    } else {
      T* const to = exchanged(block) + part(block) * Step;
      pairs::keep(block, weights, to);
      pairs::keep(block, moves, to + keys_of(block.threads()) * pairs::stride);
    }
  }
  // Adds what a tile of queries gives a warp's keys, by what the warps that share them have put there.
  template <class Block>
  WEFT_ON_DEVICE void add(Block& block, const T* of_queries, tensor_sums<R, columns / 8>& sum_k,
                          tensor_sums<R, columns / 8>& sum_v) const {
    const T *const weights = exchanged(block), *const moves = weights + keys_of(block.threads()) * pairs::stride;
    rows::template add_product<queries / 16>(
        block, [&](int r, int i) { return pairs::columns_of(block, weights + r * 16 * pairs::stride, i); },
        of_queries + queries * rows::stride, sum_v);
    rows::template add_product<queries / 16>(
        block, [&](int r, int i) { return pairs::columns_of(block, moves + r * 16 * pairs::stride, i); }, of_queries,
        sum_k);
  }
};

}  // namespace weft::gpu
