// Attention without the seq x seq matrix (Dao et al. 2022), grouped-query and causal: the backward as kernel bodies, of
// which one makes dk and dv, and one dq; both compute the scores again. Invariant: a tile of dk and dv belongs to one
// block, which adds up heads and queries in their order, and a tile of dq to one, which adds up keys; whatever the
// grid.
// Of n numbers of queries in r rows, m of keys, each row of which sees k keys, with sums in A:
//   attention_delta_kernel: 2 n T + A r bytes, 2 n FLOPs
//   attention_keys_backward_kernel: (2 n + 4 m) T + 3 A r bytes, 8 n k FLOPs
//   attention_queries_backward_kernel: (3 n + 2 m) T + 3 A r bytes, 6 n k FLOPs
#pragma once

#include <weft/backend/cuda/kernels/attention_tile.hpp>

namespace weft::gpu {

/// delta[b, h, i] = sum over c of out * dout [b, i, h, c]: what a query's ds sums to; 8 lanes to a row. Rows go in
/// the order of delta, so that a warp's lie side by side in it.
template <class T>
struct attention_delta_kernel {
  using A = accumulate_t<T>;
  int64 batch, q_len, heads, head_dim;
  const T *out, *dout;
  A* delta;
  bool packed;  // both are aligned for packs in every row

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    constexpr int lanes = 8;
    const int64 rows = batch * q_len * heads, at_once = block.threads() / lanes;
    for (int64 row0 = block.index() * at_once; row0 < rows; row0 += block.blocks() * at_once) {
      const int64 at = row0 + block.thread() / lanes, b = at / q_len / heads, h = at / q_len % heads, i = at % q_len;
      const int64 row = (b * q_len + i) * heads + h;
      A sum = 0;
      if (at < rows)
        for_packs<pack_size<T>>(block.thread() % lanes, lanes, head_dim, packed, [&]<int N>(int64 c) {
          const pack<T, N> x = block.template load<N>(out + row * head_dim + c),
                           y = block.template load<N>(dout + row * head_dim + c);
          for (int k = 0; k < N; ++k) sum += block.widen(x.at[k]) * block.widen(y.at[k]);
        });
      for (int mask = 1; mask < lanes; mask *= 2) sum += block.shuffle_xor(sum, mask);
      if (at < rows && block.thread() % lanes == 0) delta[at] = sum;
    }
  }
};

/// What the backward is given, and what a query's weights and their gradients are made of it.
template <class T>
struct attention_gradient {
  using A = accumulate_t<T>;
  attention_shape shape;
  const T *q, *k, *v, *dout;
  const A *sums, *delta;  // [2, batch, heads, q_len], [batch, heads, q_len]
  attention_tile<A> tile;
  bool packed;  // all arrays are aligned for packs, and so is every row

  /// Where query 0 of a head lies in q, and key 0 in k; and the next ones' distances.
  WEFT_ON_DEVICE int64 query_at(int64 b, int64 h) const { return (b * shape.q_len * shape.heads + h) * shape.head_dim; }
  WEFT_ON_DEVICE int64 key_at(int64 b, int64 h) const {
    return (b * shape.kv_len * shape.kv_heads + h) * shape.head_dim;
  }
  WEFT_ON_DEVICE int64 q_apart() const { return shape.heads * shape.head_dim; }
  WEFT_ON_DEVICE int64 kv_apart() const { return shape.kv_heads * shape.head_dim; }

  /// A tile of scaled queries and of dout from query `begin` on, and rows [3, rows]: high, log_sum and delta.
  template <class Block>
  WEFT_ON_DEVICE void load_queries(const Block& block, int64 b, int64 h, int64 begin, A* queries, A* douts,
                                   A* rows) const {
    const int64 n = shape.q_len - begin, at = query_at(b, h) + begin * q_apart();
    load_tile(block, tile, n, q + at, q_apart(), static_cast<A>(shape.scale), queries, packed);
    load_tile(block, tile, n, dout + at, q_apart(), A(1), douts, packed);
    const int64 head = (b * shape.heads + h) * shape.q_len + begin;
    for (int i = block.thread(); i < tile.rows; i += block.threads()) {
      rows[i] = i < n ? sums[head + i] : A(0);
      rows[tile.rows + i] = i < n ? sums[shape.batch * shape.heads * shape.q_len + head + i] : A(0);
      rows[2 * tile.rows + i] = i < n ? delta[head + i] : A(0);
    }
  }
  /// A tile of keys and of values from key `begin` on.
  template <class Block>
  WEFT_ON_DEVICE void load_keys(const Block& block, int64 b, int64 h, int64 begin, A* keys, A* values) const {
    const int64 at = key_at(b, h) + begin * kv_apart();
    load_tile(block, tile, shape.kv_len - begin, k + at, kv_apart(), A(1), keys, packed);
    load_tile(block, tile, shape.kv_len - begin, v + at, kv_apart(), A(1), values, packed);
  }

  struct weight {
    A p, ds;  // ds without the scale
  };
  /// Of query begin + row and one key, from their score and dout v^T; of batch entry b.
  template <bool Documents, class Block>
  WEFT_ON_DEVICE weight weigh(const Block& block, int64 b, int64 begin, int row, int64 key, A score, A dp,
                              const A* rows) const {
    const int64 query = begin + row, first = Documents ? shape.first_key(query, b) : shape.first_in_window(query),
                end = shape.end_key(query);
    if (query >= shape.q_len || key < first || key >= end) return {A(0), A(0)};
    const A p = block.exp(score - rows[row] - rows[tile.rows + row]);
    // A key that has all the weight moves nothing, and must not by what dp and delta are rounded by; a NaN stays.
    return {p, p >= A(1) || end - first == 1 ? A(0) : p * (dp - rows[2 * tile.rows + row])};
  }
};

/// dk (+)= ds^T scale q, dv (+)= p^T dout. Documents: whether there are any; where there are none, nothing is left of
/// them, since the registers are all in use.
template <class T, bool Documents = false>
struct attention_keys_backward_kernel {
  using A = accumulate_t<T>;
  static constexpr int threads = attention_threads;
  static constexpr int blocks_at_once = sizeof(A) == 4 ? 3 : 2;  // for 168 registers, or 255
  attention_gradient<T> from;
  T* dk;
  bool add_dk;
  T* dv;
  bool add_dv;

  static attention_tile<A> choose_tile(const attention_shape& s, std::size_t block_memory) {
    return attention_tile<A>::choose(s.head_dim, arrays, squares, block_memory);
  }
  std::size_t shared_bytes() const { return from.tile.bytes(arrays, squares); }
  int64 tiles() const {
    return from.shape.batch * from.shape.kv_heads * ((from.shape.kv_len + from.tile.rows - 1) / from.tile.rows);
  }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const attention_shape& s = from.shape;
    const attention_tile<A>& t = from.tile;
    A* const keys = block.template shared<A>();      // [rows, head_dim]
    A* const values = keys + t.elements();           // [rows, head_dim]
    A* const queries = values + t.elements();        // [rows, head_dim]
    A* const douts = queries + t.elements();         // [rows, head_dim]
    A* const sum_k = douts + t.elements();           // [rows, head_dim]
    A* const sum_v = sum_k + t.elements();           // [rows, head_dim]
    A* const p = sum_v + t.elements();               // [rows, rows]: a key's weights in its row
    A* const ds = p + t.square_elements();           // [rows, rows]
    A* const of_queries = ds + t.square_elements();  // [3, rows]
    const int64 heads = s.batch * s.kv_heads, share = s.heads / s.kv_heads;
    const int64 tiles_of_head = (s.kv_len + t.rows - 1) / t.rows;
    for (int64 item = block.index(); item < heads * tiles_of_head; item += block.blocks()) {
      const int64 k0 = item / heads * t.rows, b = item % heads / s.kv_heads, h = item % s.kv_heads;
      from.load_keys(block, b, h, k0, keys, values);
      zero_tile(block, t, sum_k);
      zero_tile(block, t, sum_v);
      const int64 first = first_query(s, k0) / t.rows * t.rows;
      const int64 end = end_query<Documents>(s, b, k0 + t.rows < s.kv_len ? k0 + t.rows : s.kv_len);
      for (int64 head = h * share; head < (h + 1) * share; ++head)
        for (int64 begin = first; begin < end; begin += t.rows) {
          block.sync();
          from.load_queries(block, b, head, begin, queries, douts, of_queries);
          block.sync();
          for_cells(block, t, [&]<int R, int C>(int row, int column, int down, int across) {
            array_of<array_of<A, C>, R> score, dp;
            multiply_cell<R, C>(t, keys, row, down, queries, column, across, score);
            multiply_cell<R, C>(t, values, row, down, douts, column, across, dp);
            WEFT_UNROLLED for (int i = 0; i < R; ++i) WEFT_UNROLLED for (int j = 0; j < C; ++j) {
              const int key = row + i * down, query = column + j * across;
              const auto w =
                  from.template weigh<Documents>(block, b, begin, query, k0 + key, score[i][j], dp[i][j], of_queries);
              p[key * t.square + query] = w.p;
              ds[key * t.square + query] = w.ds;
            }
          });
          block.sync();
          multiply_tile(
              block, t, p, douts, [](int) { return A(1); }, sum_v);
          multiply_tile(
              block, t, ds, queries, [](int) { return A(1); }, sum_k);
        }
      block.sync();
      const auto whole = [](int) { return A(1); };
      const int64 at = from.key_at(b, h) + k0 * from.kv_apart();
      store_tile(block, t, s.kv_len - k0, sum_k, whole, dk + at, from.kv_apart(), add_dk, from.packed);
      store_tile(block, t, s.kv_len - k0, sum_v, whole, dv + at, from.kv_apart(), add_dv, from.packed);
      block.sync();
    }
  }

 private:
  static constexpr int arrays = 6, squares = 2;
};

/// dq (+)= scale ds k.
template <class T>
struct attention_queries_backward_kernel {
  using A = accumulate_t<T>;
  static constexpr int threads = attention_threads;
  static constexpr int blocks_at_once = sizeof(A) == 4 ? 3 : 2;  // for 168 registers, or 255
  attention_gradient<T> from;
  T* dq;
  bool add_dq;

  static attention_tile<A> choose_tile(const attention_shape& s, std::size_t block_memory) {
    return attention_tile<A>::choose(s.head_dim, arrays, squares, block_memory);
  }
  std::size_t shared_bytes() const { return from.tile.bytes(arrays, squares); }
  int64 tiles() const {
    return from.shape.batch * from.shape.heads * ((from.shape.q_len + from.tile.rows - 1) / from.tile.rows);
  }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const attention_shape& s = from.shape;
    const attention_tile<A>& t = from.tile;
    A* const keys = block.template shared<A>();      // [rows, head_dim]
    A* const values = keys + t.elements();           // [rows, head_dim]
    A* const queries = values + t.elements();        // [rows, head_dim]
    A* const douts = queries + t.elements();         // [rows, head_dim]
    A* const sum_q = douts + t.elements();           // [rows, head_dim]
    A* const ds = sum_q + t.elements();              // [rows, rows]: a query's in its row
    A* const of_queries = ds + t.square_elements();  // [3, rows]
    const int64 heads = s.batch * s.heads, tiles_of_head = (s.q_len + t.rows - 1) / t.rows;
    for (int64 item = block.index(); item < heads * tiles_of_head; item += block.blocks()) {
      // The last queries see the most keys, and come first.
      const int64 begin = (tiles_of_head - 1 - item / heads) * t.rows, b = item % heads / s.heads, h = item % s.heads;
      const int64 n = s.q_len - begin < t.rows ? s.q_len - begin : t.rows;
      from.load_queries(block, b, h, begin, queries, douts, of_queries);
      zero_tile(block, t, sum_q);
      const int64 end = s.end_key(begin + n - 1);
      for (int64 k0 = s.first_key(begin, b) / t.rows * t.rows; k0 < end; k0 += t.rows) {
        block.sync();
        from.load_keys(block, b, h / (s.heads / s.kv_heads), k0, keys, values);
        block.sync();
        for_cells(block, t, [&]<int R, int C>(int row, int column, int down, int across) {
          array_of<array_of<A, C>, R> score, dp;
          multiply_cell<R, C>(t, queries, row, down, keys, column, across, score);
          multiply_cell<R, C>(t, douts, row, down, values, column, across, dp);
          WEFT_UNROLLED for (int i = 0; i < R; ++i) WEFT_UNROLLED for (int j = 0; j < C; ++j) {
            const int query = row + i * down, key = column + j * across;
            ds[query * t.square + key] =
                from.template weigh<true>(block, b, begin, query, k0 + key, score[i][j], dp[i][j], of_queries).ds;
          }
        });
        block.sync();
        multiply_tile(
            block, t, ds, keys, [](int) { return A(1); }, sum_q);
      }
      block.sync();
      store_tile(
          block, t, n, sum_q, [&](int) { return static_cast<A>(s.scale); },
          dq + from.query_at(b, h) + begin * from.q_apart(), from.q_apart(), add_dq, from.packed);
      block.sync();
    }
  }

 private:
  static constexpr int arrays = 5, squares = 1;
};

}  // namespace weft::gpu
