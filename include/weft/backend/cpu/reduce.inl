// Reductions of one target. Included once per target by reduce.hpp.

template <reduce Kind, class V>
WEFT_INLINE V join(V a, V b) {
  if constexpr (Kind == reduce::sum) return a + b;
  if constexpr (Kind == reduce::max) return larger(a, b);
  if constexpr (Kind == reduce::min) return smaller(a, b);
}

/// Sum, maximum or minimum of n neighbouring elements.
template <reduce Kind, class T>
inline accumulate_t<T> reduce_row(std::int64_t n, const T* x) {
  typedef accumulate_t<T> A;
  const A infinity = static_cast<A>(__builtin_inff());
  const A start = Kind == reduce::sum ? A(0) : Kind == reduce::max ? -infinity : infinity;
  const auto folded = fold<T>(
      n, splat(start),
      [=](auto v, std::int64_t i, auto count)
          WEFT_INLINE_LAMBDA { return join<Kind>(v, keep(get(x + i, count), count, start)); },
      [](auto a, auto b) WEFT_INLINE_LAMBDA { return join<Kind>(a, b); });
  if constexpr (Kind == reduce::sum) return total(folded);
  if constexpr (Kind == reduce::max) return largest(folded);
  if constexpr (Kind == reduce::min) return -largest(-folded);
}

/// y[j] = join(y[j], x[row, j]) for every row, in order.  // x [rows, n] with `stride` between rows, y [n]
template <reduce Kind, class T>
inline void reduce_columns(std::int64_t rows, std::int64_t stride, std::int64_t n, const T* x, accumulate_t<T>* y) {
  for (std::int64_t first = 0; first < rows;
       first += 16) {  // few rows at a time, so that memory is read nearly in order
    const std::int64_t some = rows - first < 16 ? rows - first : 16;
    const T* const from = x + first * stride;
    sweep<T>(n, [=](std::int64_t j, auto count) WEFT_INLINE_LAMBDA {
      auto v = get(y + j, count);
      for (std::int64_t row = 0; row < some; ++row) v = join<Kind>(v, get(from + row * stride + j, count));
      set(y + j, v, count);
    });
  }
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
