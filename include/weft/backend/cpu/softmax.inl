// Softmax of one target. Included once per target by softmax.hpp.

/// The largest element of a row; -infinity for an empty one.
template <class T>
inline accumulate_t<T> row_largest(std::int64_t n, const T* x) {
  typedef accumulate_t<T> A;
  const A lowest = -static_cast<A>(__builtin_inff());
  return largest(fold<T>(
      n, splat(lowest),
      [=](auto m, std::int64_t i, auto count)
          WEFT_INLINE_LAMBDA { return larger(m, keep(get(x + i, count), count, lowest)); },
      [](auto a, auto b) WEFT_INLINE_LAMBDA { return larger(a, b); }));
}

/// One row; `buffer` holds n elements of the accumulate type, rounded up to a full vector.
template <class T>
inline void softmax_row(std::int64_t n, const T* x, T* y, accumulate_t<T>* buffer) {
  typedef accumulate_t<T> A;
  const auto m = splat(row_largest(n, x));
  const A sum = sum_of<T>(n, [=](auto so_far, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto e = exp_flushed(get(x + i, count) - m);
    store(buffer + i, e);
    return so_far + keep(e, count, A(0));
  });
  const A inverse = A(1) / sum;
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA { set(y + i, load(buffer + i) * inverse, count); });
}

template <class T>
inline void softmax_backward_row(std::int64_t n, const T* y, const T* dy, T* dx, bool add) {
  typedef accumulate_t<T> A;
  const A dot = sum_of<T>(n, [=](auto sum, std::int64_t i, auto count)
                                 WEFT_INLINE_LAMBDA { return fma(get(y + i, count), get(dy + i, count), sum); });
  sweep<T>(n, [=](std::int64_t i, auto count)
                  WEFT_INLINE_LAMBDA { put(dx + i, get(y + i, count) * (get(dy + i, count) - dot), add, count); });
}

/// [n, inner] over n: neighbouring columns side by side in a vector.
template <class T>
inline void softmax_columns(std::int64_t n, std::int64_t inner, const T* x, T* y) {
  typedef accumulate_t<T> A;
  sweep<T>(inner, [=](std::int64_t j, auto count) WEFT_INLINE_LAMBDA {
    auto m = splat(-static_cast<A>(__builtin_inff())), sum = splat(A(0));
    for (std::int64_t i = 0; i < n; ++i) m = larger(m, get(x + i * inner + j, count));
    for (std::int64_t i = 0; i < n; ++i) sum += exp_flushed(get(x + i * inner + j, count) - m);
    const auto inverse = A(1) / sum;
    for (std::int64_t i = 0; i < n; ++i)
      set(y + i * inner + j, exp_flushed(get(x + i * inner + j, count) - m) * inverse, count);
  });
}
template <class T>
inline void softmax_backward_columns(std::int64_t n, std::int64_t inner, const T* y, const T* dy, T* dx, bool add) {
  typedef accumulate_t<T> A;
  sweep<T>(inner, [=](std::int64_t j, auto count) WEFT_INLINE_LAMBDA {
    auto dot = splat(A(0));
    for (std::int64_t i = 0; i < n; ++i) dot = fma(get(y + i * inner + j, count), get(dy + i * inner + j, count), dot);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = i * inner + j;
      put(dx + at, get(y + at, count) * (get(dy + at, count) - dot), add, count);
    }
  });
}
