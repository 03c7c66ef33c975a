// Attention's backward on tensor cores, for bf16 and fp16 and a head_dim known when compiling: one body makes dk and
// dv, and one dq. Invariant: as in attention_backward.hpp; weights and their gradients are rounded to T before they are
// multiplied with rows.
#pragma once

#include <weft/backend/cuda/kernels/attention_tensor.hpp>
#include <weft/backend/cuda/kernels/attention_tile.hpp>

namespace weft::cuda {

/// What the backward is given. All arrays are aligned to 16 bytes.
template <class T, int D>
struct attention_tensor_gradient {
  using rows = tensor_tile<T, D>;
  attention_shape shape;
  const T *q, *k, *v, *dout;
  const float *sums, *delta;  // [2, batch, heads, q_len], [batch, heads, q_len]

  WEFT_ON_DEVICE int64 query_at(int64 b, int64 h, int64 i) const {
    return ((b * shape.q_len + i) * shape.heads + h) * D;
  }
  WEFT_ON_DEVICE int64 key_at(int64 b, int64 h, int64 j) const {
    return ((b * shape.kv_len + j) * shape.kv_heads + h) * D;
  }
  WEFT_ON_DEVICE int64 q_apart() const { return shape.heads * D; }
  WEFT_ON_DEVICE int64 kv_apart() const { return shape.kv_heads * D; }
  WEFT_ON_DEVICE int64 row_at(int64 b, int64 h, int64 i) const { return (b * shape.heads + h) * shape.q_len + i; }
  WEFT_ON_DEVICE int64 all_rows() const { return shape.batch * shape.heads * shape.q_len; }

  /// What is kept of a query.
  struct kept {
    float high, log_sum, delta;
  };
  /// Makes of a score its weight, and of dout v^T the score's gradient, both 0 where the key isn't seen.
  template <class Block>
  WEFT_ON_DEVICE void weigh(const Block& block, const kept& of_query, bool seen, bool only, float& score,
                            float& dp) const {
    const float p = block.fast_exp(score * static_cast<float>(shape.scale) - of_query.high - of_query.log_sum);
    score = seen ? p : 0;
    // A key that has all the weight moves nothing, and must not by what dp and delta are rounded by; a NaN stays.
    dp = !seen || only || p >= 1 ? 0 : p * (dp - of_query.delta);
  }
  /// The same, with the mask.
  template <class Block>
  WEFT_ON_DEVICE void weigh_seen(const Block& block, const kept& of_query, int64 query, int64 key, float& score,
                                 float& dp) const {
    const int64 first = shape.first_key(query), end = shape.end_key(query);
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
    const attention_shape& s = from.shape;
    const int keys = block.warps() * 16;
    T* const tile = block.template shared<T>();        // [2, keys, D]: keys and values
    T* const stages = tile + 2 * keys * rows::stride;  // [2, 2, queries, D]: q and dout, of this tile and the next
    float* const kept = reinterpret_cast<float*>(stages + 4 * queries * rows::stride);  // [2, 3, queries]
    const int64 heads = s.batch * s.kv_heads, share = s.heads / s.kv_heads,
                tiles_of_head = (s.kv_len + keys - 1) / keys;
    for (int64 item = block.index(); item < heads * tiles_of_head; item += block.blocks()) {
      const int64 k0 = item / heads * keys, b = item % heads / s.kv_heads, h = item % s.kv_heads;
      const int64 first = first_query(s, k0) / queries * queries;
      const int64 end = end_query(s, k0 + keys < s.kv_len ? k0 + keys : s.kv_len);
      const int64 of_head = end > first ? (end - first + queries - 1) / queries : 0, steps = share * of_head;
      const auto fetch = [&](int64 step) {
        const int64 head = h * share + step / of_head, begin = first + step % of_head * queries;
        T* const to = stages + step % 2 * 2 * queries * rows::stride;
        const int64 at = from.query_at(b, head, begin), n = s.q_len - begin;
        rows::fetch(block, queries, n, from.q + at, from.q_apart(), to);
        rows::fetch(block, queries, n, from.dout + at, from.q_apart(), to + queries * rows::stride);
        for (int i = block.thread(); i < 3 * queries; i += block.threads()) {
          const int row = i % queries;
          const float* const x = i < queries ? from.sums : i < 2 * queries ? from.sums + from.all_rows() : from.delta;
          block.template copy_later<1>(kept + step % 2 * 3 * queries + i,
                                       x + from.row_at(b, head, row < n ? begin + row : begin), row < n);
        }
      };
      rows::fetch(block, keys, s.kv_len - k0, from.k + from.key_at(b, h, k0), from.kv_apart(), tile);
      rows::fetch(block, keys, s.kv_len - k0, from.v + from.key_at(b, h, k0), from.kv_apart(),
                  tile + keys * rows::stride);
      if (steps > 0) fetch(0);
      block.end_copies();
      const int64 mine = k0 + block.warp() * 16;  // this warp's keys
      const T* const my_keys = tile + block.warp() * 16 * rows::stride;
      tensor_sums<D / 8> sum_k, sum_v;
      for (int64 step = 0; step < steps; ++step) {
        if (step + 1 < steps) fetch(step + 1);
        block.end_copies();
        block.template wait_for_copies<1>();
        block.sync();
        const int64 begin = first + step % of_head * queries;
        const tile_sight sight(s, begin, queries, mine, 16);
        if (!sight.none)
          see(block, my_keys, my_keys + keys * rows::stride, stages + step % 2 * 2 * queries * rows::stride,
              kept + step % 2 * 3 * queries, begin, mine, sight.all, sum_k, sum_v);
        block.sync();
      }
      block.template wait_for_copies<0>();
      const float scale = static_cast<float>(s.scale);
      const int64 at = from.key_at(b, h, mine);
      rows::store(block, sum_k, {scale, scale}, s.kv_len - mine, dk + at, from.kv_apart(), add_dk);
      rows::store(block, sum_v, {1, 1}, s.kv_len - mine, dv + at, from.kv_apart(), add_dv);
      block.sync();
    }
  }

 private:
  using rows = tensor_tile<T, D>;

  // Adds what a tile of queries, from `begin` on, gives a warp's keys, from `mine` on.
  template <class Block>
  WEFT_ON_DEVICE void see(Block& block, const T* my_keys, const T* my_values, const T* of_queries, const float* kept,
                          int64 begin, int64 mine, bool all, tensor_sums<D / 8>& sum_k,
                          tensor_sums<D / 8>& sum_v) const {
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

  static constexpr int keys = 32;  // of a tile
  static std::size_t shared_bytes(int) { return std::size_t{4} * keys * rows::stride * sizeof(T); }
  static int64 tiles(const attention_shape& s, int threads) { return attention_tensor_kernel<T, D>::tiles(s, threads); }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const attention_shape& s = from.shape;
    T* const stages = block.template shared<T>();  // [2, 2, keys, D]: keys and values, of this tile and the next
    const int queries = block.warps() * 16;
    const int64 heads = s.batch * s.heads, tiles_of_head = (s.q_len + queries - 1) / queries;
    for (int64 item = block.index(); item < heads * tiles_of_head; item += block.blocks()) {
      // The last queries see the most keys, and come first.
      const int64 begin = (tiles_of_head - 1 - item / heads) * queries, b = item % heads / s.heads, h = item % s.heads;
      const int64 mine = begin + block.warp() * 16, n = s.q_len - mine, kv_head = h / (s.heads / s.kv_heads);
      const int64 end = s.end_key(begin + queries - 1 < s.q_len ? begin + queries - 1 : s.q_len - 1);
      const auto fetch = [&](int stage, int64 k0) {
        T* const to = stages + stage * 2 * keys * rows::stride;
        const int64 at = from.key_at(b, kv_head, k0);
        rows::fetch(block, keys, s.kv_len - k0, from.k + at, from.kv_apart(), to);
        rows::fetch(block, keys, s.kv_len - k0, from.v + at, from.kv_apart(), to + keys * rows::stride);
      };
      const int64 at = from.query_at(b, h, mine);
      const auto of_queries = rows::rows_of(block, n, from.q + at, from.q_apart());
      const auto of_douts = rows::rows_of(block, n, from.dout + at, from.q_apart());
      typename attention_tensor_gradient<T, D>::kept kept[2] = {};
      WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
        const int row = block.lane() / 4 + i * 8;
        if (row >= n) continue;
        const int64 at_row = from.row_at(b, h, mine + row);
        kept[i] = {from.sums[at_row], from.sums[from.all_rows() + at_row], from.delta[at_row]};
      }
      tensor_sums<D / 8> sum;
      int64 k0 = s.first_key(begin) / keys * keys;
      if (k0 < end) fetch(0, k0);
      block.end_copies();
      for (int stage = 0; k0 < end; k0 += keys, stage ^= 1) {
        if (k0 + keys < end) fetch(stage ^ 1, k0 + keys);
        block.end_copies();
        block.template wait_for_copies<1>();
        block.sync();
        const tile_sight sight(s, mine, 16, k0, keys);
        const T* const tile = stages + stage * 2 * keys * rows::stride;
        if (!sight.none) {
          auto p = rows::template times_rows<keys / 8>(
              block, [&](int i) { return of_queries.at[i]; }, tile);
          auto ds = rows::template times_rows<keys / 8>(
              block, [&](int i) { return of_douts.at[i]; }, tile + keys * rows::stride);
          const auto weigh = [&]<bool All>() {
            WEFT_UNROLLED for (int i = 0; i < 2; ++i) WEFT_UNROLLED for (int n8 = 0; n8 < keys / 8; ++n8)
                WEFT_UNROLLED for (int j = 0; j < 2; ++j) {
              float &score = p.at[n8][2 * i + j], &dp = ds.at[n8][2 * i + j];
              if constexpr (All)
                from.weigh(block, kept[i], true, false, score, dp);
              else
                from.weigh_seen(block, kept[i], mine + block.lane() / 4 + i * 8, k0 + n8 * 8 + block.lane() % 4 * 2 + j,
                                score, dp);
            }
          };
          if (sight.all)
            weigh.template operator()<true>();
          else
            weigh.template operator()<false>();
          rows::add_product(block, rows::rounded(block, ds), tile, sum);
        }
        block.sync();
      }
      const float scale = static_cast<float>(s.scale);
      rows::store(block, sum, {scale, scale}, n, dq + at, from.q_apart(), add_dq);
    }
  }

 private:
  using rows = tensor_tile<T, D>;
};

}  // namespace weft::cuda
