// Reductions of one target. Included once per target by reduce.hpp.

template <reduce Kind, class V>
WEFT_INLINE V join(V a, V b) {
  if constexpr (Kind == reduce::sum) return a + b;
  if constexpr (Kind == reduce::max) return larger(a, b);
  if constexpr (Kind == reduce::min) return smaller(a, b);
}

/// Sum of at most some thousand neighbouring elements: 64 running sums (32 of double), then their halves, on every
/// target alike.
template <class T>
inline accumulate_t<T> sum_block(std::int64_t n, const T* x) {
  typedef accumulate_t<T> A;
  typedef typename vector_of<T>::type V;
  constexpr int width = vector_of<T>::width, sums = 256 / static_cast<int>(sizeof(A)), vectors = sums / width;
  V running[std::size_t{vectors}];
  WEFT_UNROLL for (int v = 0; v < vectors; ++v) running[v] = splat(A(0));
  std::int64_t i = 0;
  for (; i + sums <= n; i += sums) WEFT_UNROLL for (int v = 0; v < vectors; ++v) running[v] += load(x + i + v * width);
  if (i < n) {
    WEFT_UNROLL for (int v = 0; v < vectors; ++v) {
      const std::int64_t at = i + v * width;
      if (at + width <= n)
        running[v] += load(x + at);
      else if (at < n)
        running[v] += get(x + at, first{n - at});
    }
  }
  WEFT_UNROLL for (int half = vectors / 2; half > 0; half /= 2) {
    WEFT_UNROLL for (int v = 0; v < half; ++v) running[v] += running[v + half];
  }
  return total(running[0]);
}

/// Sum, maximum or minimum of n neighbouring elements. A sum's blocks are added up in double.
template <reduce Kind, class T>
inline accumulate_t<T> reduce_row(std::int64_t n, const T* x) {
  typedef accumulate_t<T> A;
  if constexpr (Kind == reduce::sum) {
    constexpr std::int64_t block = 1024;
    if (n <= block) return sum_block(n, x);
    double sum = 0;
    for (std::int64_t i = 0; i < n; i += block)
      sum += static_cast<double>(sum_block(n - i < block ? n - i : block, x + i));
    return static_cast<A>(sum);
  } else {
    const A infinity = static_cast<A>(__builtin_inff());
    const A start = Kind == reduce::max ? -infinity : infinity;
    const auto folded = fold<T>(
        n, splat(start),
        [=](auto v, std::int64_t i, auto count)
            WEFT_INLINE_LAMBDA { return join<Kind>(v, keep(get(x + i, count), count, start)); },
        [](auto a, auto b) WEFT_INLINE_LAMBDA { return join<Kind>(a, b); });
    return Kind == reduce::max ? largest(folded) : -largest(-folded);
  }
}

/// y[j] = join(y[j], x[0, j] joined with the following rows in order), of at most 16 rows, so that memory is read
/// nearly in order.  // x [rows, n] with `stride` between rows, y [n]
template <reduce Kind, class T>
inline void reduce_columns(std::int64_t rows, std::int64_t stride, std::int64_t n, const T* x, accumulate_t<T>* y) {
  sweep<T>(n, [=](std::int64_t j, auto count) WEFT_INLINE_LAMBDA {
    auto v = get(x + j, count);
    for (std::int64_t row = 1; row < rows; ++row) v = join<Kind>(v, get(x + row * stride + j, count));
    set(y + j, join<Kind>(get(y + j, count), v), count);
  });
}

/// to (+)= the sum of rows `which[0]`, `which[1]`, ... of x, at least one.  // x [any, stride], to [n]
template <class T, class Out>
inline void sum_chosen_rows(std::int64_t rows, const std::int64_t* which, std::int64_t stride, std::int64_t n,
                            const T* x, Out* to, bool add) {
  sweep<T>(n, [=](std::int64_t j, auto count) WEFT_INLINE_LAMBDA {
    auto v = get(x + which[0] * stride + j, count);
    for (std::int64_t row = 1; row < rows; ++row) v = v + get(x + which[row] * stride + j, count);
    put(to + j, v, add, count);
  });
}

/// to[i] (+)= number.
template <class T>
inline void repeat_number(std::int64_t n, accumulate_t<T> number, T* to, bool add) {
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA { put(to + i, splat(number), add, count); });
}

template <class T>
inline double sum_of_squares_block(std::int64_t n, const T* x) {
  return total(fold<T>(
      n, splat(0.0),
      [=](auto sum, std::int64_t i, auto count) WEFT_INLINE_LAMBDA { return sum + squares(get(x + i, count)); },
      [](auto a, auto b) WEFT_INLINE_LAMBDA { return a + b; }));
}
