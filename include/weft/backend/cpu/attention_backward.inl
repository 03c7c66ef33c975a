// Gradients of attention of one target, for one batch entry and key/value head. Included by attention_backward.hpp.
// Scores are computed again block by block; gradients of keys and values grow in scratch memory.

/// q, out, dout, dq: first head that reads this key/value head; k, v, dk, dv: this head; high, log_sum [share, q_len].
template <class T>
inline void attention_backward_task(const attention_shape& s, const T* q, const T* k, const T* v, const T* out,
                                    const accumulate_t<T>* high, const accumulate_t<T>* log_sum, const T* dout, T* dq,
                                    bool add_dq, T* dk, bool add_dk, T* dv, bool add_dv, accumulate_t<T>* memory) {
  typedef accumulate_t<T> A;
  constexpr std::int64_t keys = detail::attention_block, queries = detail::attention_block;
  constexpr int width = vector_of<A>::width;
  const std::int64_t d = s.head_dim, ld = detail::attention_width(d), q_stride = s.heads * d,
                     kv_stride = s.kv_heads * d;
  const std::int64_t blocks = (s.kv_len + keys - 1) / keys, share = s.heads / s.kv_heads;
  A* const kt = memory;                   // [blocks, ld, keys]
  A* const vt = kt + blocks * keys * ld;  // [blocks, ld, keys]
  A* const pk = vt + blocks * keys * ld;  // [blocks * keys, ld]
  A* const gk = pk + blocks * keys * ld;  // [blocks * keys, ld]
  A* const gv = gk + blocks * keys * ld;  // [blocks * keys, ld]
  A* const pq = gv + blocks * keys * ld;  // [queries, ld]
  A* const pd = pq + queries * ld;        // [queries, ld]
  A* const gq = pd + queries * ld;        // [queries, ld]
  A* const p = gq + queries * ld;         // [queries, keys]
  A* const ds = p + queries * keys;       // [queries, keys]
  A* const tops = ds + queries * keys;    // [queries]: high
  A* const logs = tops + queries;         // [queries]: log_sum
  A* const delta = logs + queries;        // [queries]: sum of out * dout
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t here = s.kv_len - b * keys < keys ? s.kv_len - b * keys : keys, from = b * keys * kv_stride;
    pack_transposed(here, d, k + from, kv_stride, kt + b * keys * ld, keys);
    pack_transposed(here, d, v + from, kv_stride, vt + b * keys * ld, keys);
    pack_rows(here, keys, d, k + from, kv_stride, A(1), pk + b * keys * ld, ld);
  }
  __builtin_memset(gk, 0, static_cast<std::size_t>(2 * blocks * keys * ld) * sizeof(A));
  for (std::int64_t h = 0; h < share; ++h)
    for (std::int64_t begin = 0; begin < s.q_len; begin += queries) {
      const std::int64_t n = s.q_len - begin < queries ? s.q_len - begin : queries;
      const std::int64_t rows = (n + tile_rows - 1) / tile_rows * tile_rows, at = begin * q_stride + h * d;
      pack_rows(n, rows, d, q + at, q_stride, static_cast<A>(s.scale), pq, ld);
      pack_rows(n, rows, d, dout + at, q_stride, A(1), pd, ld);
      __builtin_memset(gq, 0, static_cast<std::size_t>(rows * ld) * sizeof(A));
      for (std::int64_t i = 0; i < rows; ++i) {
        tops[i] = i < n ? high[h * s.q_len + begin + i] : A(0);
        logs[i] = i < n ? log_sum[h * s.q_len + begin + i] : A(0);
        delta[i] = A(0);
        if (i >= n) continue;
        auto sum = splat(A(0));
        sweep<T>(d, [&](std::int64_t c, auto count) WEFT_INLINE_LAMBDA {
          sum = fma(get(out + at + i * q_stride + c, count), load(pd + i * ld + c), sum);
        });
        delta[i] = total(sum);
      }
      const auto visible = [&](std::int64_t i) {  // rows that only fill a tile see nothing
        return i >= n ? std::int64_t{0} : s.end_key(begin + i);
      };
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t k0 = b * keys, here = s.kv_len - k0 < keys ? s.kv_len - k0 : keys;
        const A* const bkt = kt + b * keys * ld;
        const A* const bvt = vt + b * keys * ld;
        const A* const bk = pk + b * keys * ld;
        const auto seen_by = [&](std::int64_t i0) {  // keys of this block that some row of a tile sees
          return clamp(visible(i0 + tile_rows - 1 < n ? i0 + tile_rows - 1 : n - 1) - k0, 0, here);
        };
        if (seen_by(rows - tile_rows) == 0) break;
        std::int64_t seeing = 0;  // rows of tiles before the first that sees nothing here, as do all behind it
        while (seeing < rows && s.first_key(begin + seeing) < k0 + here) seeing += tile_rows;
        if (seeing == 0) continue;
        for (std::int64_t i0 = 0; i0 < seeing; i0 += tile_rows) {
          const std::int64_t seen = seen_by(i0);
          if (seen == 0) continue;
          const std::int64_t seen_tiles = (seen + tile_columns<A> - 1) / tile_columns<A> * tile_columns<A>;
          multiply_rows(seen, d, pq + i0 * ld, ld, 1, bkt, keys, p + i0 * keys, keys, false);
          multiply_rows(seen, d, pd + i0 * ld, ld, 1, bvt, keys, ds + i0 * keys, keys, false);
          for (std::int64_t i = i0; i < i0 + tile_rows; ++i) {
            A* const prow = p + i * keys;
            A* const drow = ds + i * keys;
            const std::int64_t mine = clamp(visible(i) - k0, 0, here);
            const A top = tops[i], log = logs[i], along = delta[i];
            sweep<A>(mine, [=](std::int64_t j, auto count) WEFT_INLINE_LAMBDA {
              const auto e = keep(exp_flushed(load(prow + j) - top - log), count, A(0));
              const auto slope = e * (load(drow + j) - along);
              store(prow + j, e);
              store(drow + j, e >= A(1) ? splat(A(0)) : slope);  // a key that has all the weight; a NaN stays
            });
            const std::int64_t behind = i < n ? clamp(s.first_key(begin + i) - k0, 0, mine) : 0;
            for (std::int64_t j = 0; j < behind; ++j) prow[j] = drow[j] = A(0);
            if (i < n && visible(i) - s.first_key(begin + i) == 1)  // one key has all the weight, whatever its score
              for (std::int64_t j = behind; j < mine; ++j) drow[j] = A(0);
            for (std::int64_t j = (mine + width - 1) / width * width; j < seen_tiles; j += width) {
              store(prow + j, splat(A(0)));
              store(drow + j, splat(A(0)));
            }
          }
          multiply_rows(d, seen, ds + i0 * keys, keys, 1, bk, ld, gq + i0 * ld, ld, true);
        }
        for (std::int64_t j = 0; j < here; j += tile_rows) {
          std::int64_t i0 = 0;  // the first tile of rows that sees key j
          while (i0 < seeing && seen_by(i0) <= j) i0 += tile_rows;
          if (i0 == seeing) break;
          const std::int64_t to = (k0 + j) * ld;
          multiply_rows(d, seeing - i0, p + i0 * keys + j, 1, keys, pd + i0 * ld, ld, gv + to, ld, true);
          multiply_rows(d, seeing - i0, ds + i0 * keys + j, 1, keys, pq + i0 * ld, ld, gk + to, ld, true);
        }
      }
      for (std::int64_t i = 0; i < n; ++i)
        unpack_row(d, gq + i * ld, static_cast<A>(s.scale), dq + at + i * q_stride, add_dq);
    }
  for (std::int64_t j = 0; j < s.kv_len; ++j) {
    unpack_row(d, gk + j * ld, A(1), dk + j * kv_stride, add_dk);
    unpack_row(d, gv + j * ld, A(1), dv + j * kv_stride, add_dv);
  }
}
