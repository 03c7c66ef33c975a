// Attention of one target: the product of small tiles, packing, and the forward of one task.
// Included once per target by attention.hpp. Everything is computed in A = accumulate_t<T>; only packing knows T.

inline constexpr int tile_rows = WEFT_TARGET == 2 ? 8 : 4;
template <class A>
inline constexpr int tile_columns = 2 * vector_of<A>::width;

/// c[tile_rows, tile_columns] (+)= a b over k, which is summed apart before it is added, so that a sum over many tiles
/// is one of their sums. Element (i, k) of a at a[i * row + k * column], b [k, ldb], c [.., ldc]
template <class A>
inline void multiply_tile(std::int64_t depth, const A* a, std::int64_t row, std::int64_t column, const A* b,
                          std::int64_t ldb, A* c, std::int64_t ldc, bool add) {
  typedef typename vector_of<A>::type V;
  constexpr int width = vector_of<A>::width;
  V left[tile_rows], right[tile_rows];
  WEFT_UNROLL for (int i = 0; i < tile_rows; ++i) left[i] = right[i] = V{};
  for (std::int64_t k = 0; k < depth; ++k, a += column, b += ldb) {
    const V b0 = load(b), b1 = load(b + width);
    WEFT_UNROLL for (int i = 0; i < tile_rows; ++i) {
      const V ai = splat(a[i * row]);
      left[i] = fma(ai, b0, left[i]);
      right[i] = fma(ai, b1, right[i]);
    }
  }
  __asm__("" : "+r"(ldc));  // or the compiler would keep tile_rows addresses alive through the loop
  WEFT_UNROLL for (int i = 0; i < tile_rows; ++i) {
    store(c + i * ldc, add ? load(c + i * ldc) + left[i] : left[i]);
    store(c + i * ldc + width, add ? load(c + i * ldc + width) + right[i] : right[i]);
  }
}

/// tile_rows rows of c, `columns` of them (rounded up to whole tiles).
template <class A>
inline void multiply_rows(std::int64_t columns, std::int64_t depth, const A* a, std::int64_t row, std::int64_t column,
                          const A* b, std::int64_t ldb, A* c, std::int64_t ldc, bool add) {
  for (std::int64_t j = 0; j < columns; j += tile_columns<A>)
    multiply_tile(depth, a, row, column, b + j, ldb, c + j, ldc, add);
}

/// to[i, c] = factor * from[i, c], zeros in columns d .. ld and rows n .. rows.
template <class T, class A>
inline void pack_rows(std::int64_t n, std::int64_t rows, std::int64_t d, const T* from, std::int64_t stride, A factor,
                      A* to, std::int64_t ld) {
  for (std::int64_t i = 0; i < rows; ++i) {
    A* const line = to + i * ld;
    if (i < n)
      sweep<T>(d, [=](std::int64_t c, auto count)
                      WEFT_INLINE_LAMBDA { set(line + c, get(from + i * stride + c, count) * factor, count); });
    for (std::int64_t c = i < n ? d : 0; c < ld; ++c) line[c] = A(0);
  }
}

/// to[c, j] = from[j, c] for j < n, zeros for n <= j < ld.
template <class T, class A>
inline void pack_transposed(std::int64_t n, std::int64_t d, const T* from, std::int64_t stride, A* to,
                            std::int64_t ld) {
  std::int64_t j = 0;
  if constexpr (sizeof(A) == 4)
    for (; j + lanes <= n; j += lanes) {
      std::int64_t c = 0;
      for (; c + lanes <= d; c += lanes) {
        vec square[lanes];
        WEFT_UNROLL for (int i = 0; i < lanes; ++i) square[i] = load(from + (j + i) * stride + c);
        transpose(square);
        WEFT_UNROLL for (int i = 0; i < lanes; ++i) store(to + (c + i) * ld + j, square[i]);
      }
      for (; c < d; ++c)
        for (int i = 0; i < lanes; ++i) to[c * ld + j + i] = static_cast<A>(from[(j + i) * stride + c]);
    }
  for (; j < ld; ++j)
    for (std::int64_t c = 0; c < d; ++c) to[c * ld + j] = j < n ? static_cast<A>(from[j * stride + c]) : A(0);
}

/// to[i, c] (+)= factor * from[i, c].
template <class T, class A>
inline void unpack_row(std::int64_t d, const A* from, A factor, T* to, bool add) {
  sweep<T>(d, [=](std::int64_t c, auto count)
                  WEFT_INLINE_LAMBDA { put(to + c, get(from + c, count) * factor, add, count); });
}

/// row = exp(row - m) in the first n places, zeros up to `padded`; returns the sum.
template <class A>
WEFT_INLINE A exponentials(std::int64_t n, std::int64_t padded, A m, A* row) {
  auto sum = splat(A(0));
  sweep<A>(n, [&](std::int64_t j, auto count) WEFT_INLINE_LAMBDA {
    const auto e = keep(exp_flushed(load(row + j) - m), count, A(0));
    store(row + j, e);
    sum += e;
  });
  constexpr std::int64_t width = vector_of<A>::width;
  for (std::int64_t j = (n + width - 1) / width * width; j < padded; j += width) store(row + j, splat(A(0)));
  return total(sum);
}

inline std::int64_t clamp(std::int64_t x, std::int64_t low, std::int64_t high) {
  return x < low ? low : x > high ? high : x;
}

/// Queries begin ... begin + n - 1 of one head. q, out, high, log_sum: first query of the chunk; k, v: first key of the
/// head.
template <class T>
inline void attention_task(const attention_shape& s, std::int64_t begin, std::int64_t n, const T* q, const T* k,
                           const T* v, T* out, accumulate_t<T>* high, accumulate_t<T>* log_sum,
                           accumulate_t<T>* memory) {
  typedef accumulate_t<T> A;
  constexpr std::int64_t keys = detail::attention_keys;
  const std::int64_t d = s.head_dim, ld = detail::attention_width(d), q_stride = s.heads * d,
                     kv_stride = s.kv_heads * d;
  const std::int64_t rows = (n + tile_rows - 1) / tile_rows * tile_rows;
  A* const pq = memory;                              // [rows, ld]
  A* const sum = pq + detail::attention_chunk * ld;  // [rows, ld]
  A* const kt = sum + detail::attention_chunk * ld;  // [d, keys]
  A* const pv = kt + keys * ld;                      // [keys, ld]
  A* const p = pv + keys * ld;                       // [tile_rows, keys]
  A* const m = p + tile_rows * keys;                 // [rows]
  A* const l = m + detail::attention_chunk;          // [rows]
  const A lowest = -static_cast<A>(__builtin_inff());
  pack_rows(n, rows, d, q, q_stride, static_cast<A>(s.scale), pq, ld);
  __builtin_memset(sum, 0, static_cast<std::size_t>(rows * ld) * sizeof(A));
  for (std::int64_t i = 0; i < rows; ++i) m[i] = lowest, l[i] = A(0);
  // Rows that only fill a tile see what the last one sees.
  const auto visible = [&](std::int64_t i) { return s.end_key(begin + (i < n ? i : n - 1)); };
  const auto first = [&](std::int64_t i) { return s.first_key(begin + (i < n ? i : n - 1)); };
  const std::int64_t end = visible(n - 1);
  for (std::int64_t k0 = first(0) / keys * keys; k0 < end; k0 += keys) {
    const std::int64_t here = end - k0 < keys ? end - k0 : keys;
    pack_transposed(here, d, k + k0 * kv_stride, kv_stride, kt, keys);
    pack_rows(here, here, d, v + k0 * kv_stride, kv_stride, A(1), pv, ld);
    for (std::int64_t i0 = 0; i0 < rows; i0 += tile_rows) {
      const std::int64_t seen = clamp(visible(i0 + tile_rows - 1) - k0, 0, here);
      if (seen == 0 || first(i0) >= k0 + here) continue;
      multiply_rows(seen, d, pq + i0 * ld, ld, 1, kt, keys, p, keys, false);
      for (std::int64_t i = i0; i < i0 + tile_rows; ++i) {
        A* const row = p + (i - i0) * keys;
        const std::int64_t mine = clamp(visible(i) - k0, 0, here), behind = clamp(first(i) - k0, 0, mine);
        for (std::int64_t j = 0; j < behind; ++j) row[j] = lowest;  // its exponential is 0
        const A before = m[i], best = row_largest(mine, row), now = best > before ? best : before;
        const A added = exponentials(mine, seen, now > lowest ? now : A(0), row);
        if (now > before) {
          const auto shrink = exp_flushed(splat(before - now));
          if (before > lowest)
            for (std::int64_t c = 0; c < ld; c += vector_of<A>::width)
              store(sum + i * ld + c, load(sum + i * ld + c) * shrink);
          l[i] *= shrink[0];
          m[i] = now;
        }
        l[i] += added;
      }
      multiply_rows(d, seen, p, keys, 1, pv, ld, sum + i0 * ld, ld, true);
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    unpack_row(d, sum + i * ld, l[i] == A(0) ? A(0) : A(1) / l[i], out + i * q_stride, false);
    high[i] = m[i];
    log_sum[i] = l[i] == A(0) ? A(0) : static_cast<A>(__builtin_log(static_cast<double>(l[i])));
  }
}
