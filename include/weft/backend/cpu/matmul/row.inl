// One row times a matrix, the product of sampling: bound by reading b once, so b is never copied.
// Invariant: y is complete for the columns given; the row x is already in the accumulator's type and contiguous.

/// y[0 ... n) = sum over k of x[k] * b[k, :], rows of b contiguous and `next` elements apart. Four rows at a time.
template <class T>
inline void row_times_rows(const accumulate_t<T>* x, const T* b, std::int64_t next, std::int64_t n, std::int64_t k,
                           accumulate_t<T>* y) {
  using vector = decltype(load(b));
  constexpr int width = static_cast<int>(sizeof(vector) / sizeof(accumulate_t<T>));
  for (std::int64_t j = 0; j < n; ++j) y[j] = 0;
  for (std::int64_t i = 0; i < k; i += 4, b += 4 * next) {
    if (k - i < 4) {  // the last rows, one by one
      for (std::int64_t r = i; r < k; ++r, b += next)
        for (std::int64_t j = 0; j < n; j += width) {
          const std::int64_t left = n - j;
          if (left >= width)
            store(y + j, fma(splat(x[r]), load(b + j), load(y + j)));
          else
            store(y + j, fma(splat(x[r]), load(b + j, left), load(y + j, left)), left);
        }
      return;
    }
    const vector x0 = splat(x[i]), x1 = splat(x[i + 1]), x2 = splat(x[i + 2]), x3 = splat(x[i + 3]);
    std::int64_t j = 0;
    for (; j + width <= n; j += width) {
      vector sum = fma(x0, load(b + j), load(y + j));
      sum = fma(x1, load(b + next + j), sum);
      sum = fma(x2, load(b + 2 * next + j), sum);
      store(y + j, fma(x3, load(b + 3 * next + j), sum));
    }
    if (const std::int64_t left = n - j; left > 0) {
      vector sum = fma(x0, load(b + j, left), load(y + j, left));
      sum = fma(x1, load(b + next + j, left), sum);
      sum = fma(x2, load(b + 2 * next + j, left), sum);
      store(y + j, fma(x3, load(b + 3 * next + j, left), sum), left);
    }
  }
}

/// Partial sums of x[k] * b[k], both contiguous. Columns one by one, as they lie: so the processor reads ahead as fast
/// as memory is.
template <class T>
WEFT_INLINE decltype(load(static_cast<const T*>(nullptr))) dot(const accumulate_t<T>* x, const T* b, std::int64_t k) {
  using vector = decltype(load(b));
  constexpr int width = static_cast<int>(sizeof(vector) / sizeof(accumulate_t<T>)), step = 4 * width;
  vector v0{}, v1{}, v2{}, v3{};
  std::int64_t i = 0;
  for (; i + step <= k; i += step) {
    v0 = fma(load(x + i), load(b + i), v0);
    v1 = fma(load(x + i + width), load(b + i + width), v1);
    v2 = fma(load(x + i + 2 * width), load(b + i + 2 * width), v2);
    v3 = fma(load(x + i + 3 * width), load(b + i + 3 * width), v3);
  }
  for (; i < k; i += width) {
    const std::int64_t left = k - i < width ? k - i : width;
    v0 = fma(load(x + i, left), load(b + i, left), v0);
  }
  return (v0 + v1) + (v2 + v3);
}
/// The sum of each of `lanes` vectors, added by halves as sum() does.
WEFT_INLINE vec sums_of(vec* v) {
  transpose(v);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) v[i] = v[i] + v[i + half];
  return v[0];
}
/// y[j] = sum over k of x[k] * b[k, j], columns of b contiguous and `next` elements apart.
template <class T>
inline void row_times_columns(const accumulate_t<T>* x, const T* b, std::int64_t next, std::int64_t n, std::int64_t k,
                              accumulate_t<T>* y) {
  std::int64_t j = 0;
  if constexpr (sizeof(T) < 8)
    for (; j + lanes <= n; j += lanes) {
      vec sums[lanes];
      for (int c = 0; c < lanes; ++c) sums[c] = dot(x, b + (j + c) * next, k);
      store(y + j, sums_of(sums));
    }
  for (; j < n; ++j) y[j] = sum(dot(x, b + j * next, k));
}

template <class T, class Out>
inline void finish_row(const accumulate_t<T>* y, std::int64_t n, Out* c, bool accumulate) {
  add_tile(y, n, 1, n, c, n, accumulate);
}
