// Attention's backward on tensor cores, for bf16 and fp16 and a head_dim known when compiling: one body makes dk and
// dv, and one dq. Invariant: as in attention_backward.hpp; weights and their gradients are rounded to T before they are
// multiplied with rows.
#pragma once

#include <weft/backend/cuda/kernels/attention_tensor.hpp>

namespace weft::cuda {

/// What the backward is given. All arrays are aligned to 16 bytes.
template <class T, int D>
struct attention_tensor_gradient {
  tensor_shape<D> shape;
  const T *q, *k, *v, *dout;
  const float *sums, *delta;  // [2, batch, heads, q_len], [batch, heads, q_len]

  /// What is kept of a query.
  struct kept {
    float high, log_sum, delta;
  };
  /// Makes of a score its weight, and of dout v^T the score's gradient, both 0 where the key isn't seen.
  template <class Block>
  WEFT_ON_DEVICE void weigh(const Block& block, const kept& of_query, bool seen, bool only, float& score,
                            float& dp) const {
    const float p = block.fast_exp(score * shape.scale - of_query.high - of_query.log_sum);
    score = seen ? p : 0;
    // A key that has all the weight moves nothing, and must not by what dp and delta are rounded by; a NaN stays.
    dp = !seen || only || p >= 1 ? 0 : p * (dp - of_query.delta);
  }
  /// The same, with the mask.
  template <class Block>
  WEFT_ON_DEVICE void weigh_seen(const Block& block, const kept& of_query, int query, int key, float& score,
                                 float& dp) const {
    const int first = shape.first_key(query), end = shape.end_key(query);
    weigh(block, of_query, query < shape.q_len && key >= first && key < end, end - first == 1, score, dp);
  }
};

/// As attention_keys_backward_kernel; a warp has 16 keys.
template <class T, int D>
struct attention_tensor_keys_backward_kernel {
  attention_tensor_gradient<T, D> from;
  T* dk;
  bool add_dk;
  T* dv;
  bool add_dv;

  static constexpr int queries = 32;  // of a tile
  static std::size_t shared_bytes(int threads) {
    const int elements = (2 * (threads / warp_size * 16) + 4 * queries) * rows::stride;
    return static_cast<std::size_t>(elements) * sizeof(T) + std::size_t{2} * 3 * queries * sizeof(float);
  }
  static int64 tiles(const attention_shape& s, int threads) {
    const int keys = threads / warp_size * 16;
    return s.batch * s.kv_heads * ((s.kv_len + keys - 1) / keys);
  }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const tensor_shape<D>& s = from.shape;
    const int keys = block.warps() * 16;
    T* const tile = block.template shared<T>();        // [2, keys, D]: keys and values
    T* const stages = tile + 2 * keys * rows::stride;  // [2, 2, queries, D]: q and dout, of this tile and the next
    float* const kept = reinterpret_cast<float*>(stages + 4 * queries * rows::stride);  // [2, 3, queries]
    for (int item = static_cast<int>(block.index()); item < s.key_tiles(keys);
         item += static_cast<int>(block.blocks())) {
      const auto of = s.key_tile_of(item, keys, block.warp());
      const int first = s.first_query(of.begin) / queries * queries;
      const int end = s.end_query(of.begin + keys < s.kv_len ? of.begin + keys : s.kv_len);
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
      const T* const my_keys = tile + block.warp() * 16 * rows::stride;
      tensor_sums<D / 8> sum_k, sum_v;
      for (int stage = 0; more; stage ^= 1) {
        const int now = begin;
        begin += queries;
        if (begin >= end) begin = first, ++head;
        more = head < (of.h + 1) * s.share;
        if (more) fetch(stage ^ 1, head, begin);
        block.end_copies();
        block.template wait_for_copies<1>();
        block.sync();
        if (!s.sees_none(now, queries, of.mine, 16))
          see(block, my_keys, my_keys + keys * rows::stride, stages + stage * 2 * queries * rows::stride,
              kept + stage * 3 * queries, now, of.mine, s.sees_all(now, queries, of.mine, 16), sum_k, sum_v);
        block.sync();
      }
      block.template wait_for_copies<0>();
      const auto t = s.key_tile_of(block.anew(item), keys, block.warp());
      const int64 at = s.key_at(t.b, t.h, t.mine);
      rows::store(block, sum_k, {s.scale, s.scale}, t.n, dk + at, s.kv_apart(), add_dk);
      rows::store(block, sum_v, {1, 1}, t.n, dv + at, s.kv_apart(), add_dv);
    }
  }

 private:
  using rows = tensor_tile<T, D>;

  // Adds what a tile of queries, from `begin` on, gives a warp's keys, from `mine` on.
  template <class Block>
  WEFT_ON_DEVICE void see(Block& block, const T* my_keys, const T* my_values, const T* of_queries, const float* kept,
                          int begin, int mine, bool all, tensor_sums<D / 8>& sum_k, tensor_sums<D / 8>& sum_v) const {
    const T* const douts = of_queries + queries * rows::stride;
    // [keys, queries]: a column is a query
    auto p = rows::template times_rows<queries / 8>(
        block, [&](int i) { return rows::columns_of(block, my_keys, i); }, of_queries);
    auto ds = rows::template times_rows<queries / 8>(
        block, [&](int i) { return rows::columns_of(block, my_values, i); }, douts);
    const auto weigh = [&]<bool All>() {
      WEFT_UNROLLED for (int n = 0; n < queries / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j) {
        const int query = n * 8 + block.lane() % 4 * 2 + j;
        const typename attention_tensor_gradient<T, D>::kept of_query{kept[query], kept[queries + query],
                                                                      kept[2 * queries + query]};
        WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
          float &score = p.at[n][2 * i + j], &dp = ds.at[n][2 * i + j];
          if constexpr (All)
            from.weigh(block, of_query, true, false, score, dp);
          else
            from.weigh_seen(block, of_query, begin + query, mine + block.lane() / 4 + i * 8, score, dp);
        }
      }
    };
    if (all)
      weigh.template operator()<true>();
    else
      weigh.template operator()<false>();
    rows::add_product(block, rows::rounded(block, p), douts, sum_v);
    rows::add_product(block, rows::rounded(block, ds), of_queries, sum_k);
  }
};

/// As attention_queries_backward_kernel; a warp has 16 queries.
template <class T, int D>
struct attention_tensor_queries_backward_kernel {
  attention_tensor_gradient<T, D> from;
  T* dq;
  bool add_dq;

  static constexpr int blocks_at_once = D == 64 ? 2 : 0;  // of a multiprocessor
  static constexpr int keys = 32;                         // of a tile
  static std::size_t shared_bytes(int threads) {
    return static_cast<std::size_t>((2 * (threads / warp_size * 16) + 4 * keys) * rows::stride) * sizeof(T);
  }
  static int64 tiles(const attention_shape& s, int threads) { return attention_tensor_kernel<T, D>::tiles(s, threads); }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const tensor_shape<D>& s = from.shape;
    const int queries = block.warps() * 16;
    T* const tile = block.template shared<T>();           // [2, queries, D]: q and dout
    T* const stages = tile + 2 * queries * rows::stride;  // [2, 2, keys, D]: keys and values, of this tile and the next
    const T* const my_queries = tile + block.warp() * 16 * rows::stride;
    for (int item = static_cast<int>(block.index()); item < s.query_tiles(queries);
         item += static_cast<int>(block.blocks())) {
      const auto t = s.query_tile_of(item, queries, block.warp());
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
      typename attention_tensor_gradient<T, D>::kept kept[2] = {};
      WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
        const int row = block.lane() / 4 + i * 8;
        if (row >= t.n) continue;
        const int at_row = s.row_at(t.b, t.h, t.mine + row);
        kept[i] = {from.sums[at_row], from.sums[s.all_rows() + at_row], from.delta[at_row]};
      }
      tensor_sums<D / 8> sum;
      int k0 = s.first_key(t.begin) / keys * keys;
      if (k0 < end) fetch(0, k0);
      block.end_copies();
      for (int stage = 0; k0 < end; k0 += keys, stage ^= 1) {
        if (k0 + keys < end) fetch(stage ^ 1, k0 + keys);
        block.end_copies();
        block.template wait_for_copies<1>();
        block.sync();
        const T* const of_keys = stages + stage * 2 * keys * rows::stride;
        if (!s.sees_none(t.mine, 16, k0, keys)) {
          auto p = rows::template times_rows<keys / 8>(
              block, [&](int i) { return rows::columns_of(block, my_queries, i); }, of_keys);
          auto ds = rows::template times_rows<keys / 8>(
              block, [&](int i) { return rows::columns_of(block, my_queries + queries * rows::stride, i); },
              of_keys + keys * rows::stride);
          const auto weigh = [&]<bool All>() {
            WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n) {
              WEFT_UNROLLED for (int i = 0; i < 4; ++i) {
                float &score = p.at[n][i], &dp = ds.at[n][i];
                if constexpr (All)
                  from.weigh(block, kept[i / 2], true, false, score, dp);
                else
                  from.weigh_seen(block, kept[i / 2], t.mine + block.lane() / 4 + i / 2 * 8,
                                  k0 + n * 8 + block.lane() % 4 * 2 + i % 2, score, dp);
              }
            }
          };
          if (s.sees_all(t.mine, 16, k0, keys))
            weigh.template operator()<true>();
          else
            weigh.template operator()<false>();
          rows::add_product(block, rows::rounded(block, ds), of_keys, sum);
        }
        block.sync();
      }
      block.template wait_for_copies<0>();
      const auto at = s.query_tile_of(block.anew(item), queries, block.warp());
      rows::store(block, sum, {s.scale, s.scale}, at.n, dq + s.query_at(at.b, at.h, at.mine), s.q_apart(), add_dq);
    }
  }

 private:
  using rows = tensor_tile<T, D>;
};

}  // namespace weft::cuda
