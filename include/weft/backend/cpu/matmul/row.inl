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

/// y[j] = sum over k of x[k] * b[k, j], columns of b contiguous and `next` elements apart. `Columns` at a time.
template <int Columns, class T>
WEFT_INLINE void dots(const accumulate_t<T>* x, const T* b, std::int64_t next, std::int64_t k, accumulate_t<T>* y) {
  using vector = decltype(load(b));
  constexpr int width = static_cast<int>(sizeof(vector) / sizeof(accumulate_t<T>));
  constexpr auto columns = static_cast<std::size_t>(Columns);
  vector even[columns] = {}, odd[columns] = {};
  std::int64_t i = 0;
  for (; i + 2 * width <= k; i += 2 * width) {
    const vector first = load(x + i), second = load(x + i + width);
    for (int c = 0; c < Columns; ++c) {
      even[c] = fma(first, load(b + c * next + i), even[c]);
      odd[c] = fma(second, load(b + c * next + i + width), odd[c]);
    }
  }
  for (; i < k; i += width) {
    const std::int64_t left = k - i < width ? k - i : width;
    const vector rest = load(x + i, left);
    for (int c = 0; c < Columns; ++c) even[c] = fma(rest, load(b + c * next + i, left), even[c]);
  }
  for (int c = 0; c < Columns; ++c) y[c] = sum(even[c] + odd[c]);
}
template <class T>
inline void row_times_columns(const accumulate_t<T>* x, const T* b, std::int64_t next, std::int64_t n, std::int64_t k,
                              accumulate_t<T>* y) {
  std::int64_t j = 0;
  for (; j + 4 <= n; j += 4) dots<4>(x, b + j * next, next, k, y + j);
  for (; j < n; ++j) dots<1>(x, b + j * next, next, k, y + j);
}

template <class T, class Out>
inline void finish_row(const accumulate_t<T>* y, std::int64_t n, Out* c, bool accumulate) {
  add_tile(y, n, 1, n, c, n, accumulate);
}
