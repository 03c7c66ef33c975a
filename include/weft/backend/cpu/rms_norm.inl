// RMSNorm of one target. Included once per target by rms_norm.hpp.

template <class T>
inline accumulate_t<T> row_sum_of_squares(std::int64_t n, const T* x) {
  return sum_of<T>(n, [=](auto sum, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto v = get(x + i, count);
    return fma(v, v, sum);
  });
}

template <class T>
inline void rms_norm_row(std::int64_t n, const T* x, const T* weight, accumulate_t<T> r, T* y) {
  sweep<T>(n, [=](std::int64_t i, auto count)
                  WEFT_INLINE_LAMBDA { set(y + i, get(x + i, count) * r * get(weight + i, count), count); });
}

/// part += dy * u, and dx (+)= r * (w*dy - u * mean(w*dy*u)), where u = x * r is of the size of 1. dx may be null, and
/// weight then too.
template <class T>
inline void rms_norm_row_backward(std::int64_t n, const T* x, const T* weight, const T* dy, accumulate_t<T> r,
                                  accumulate_t<T>* part, T* dx, bool add) {
  typedef accumulate_t<T> A;
  if (!dx) {
    sweep<T>(n, [=](std::int64_t i, auto count)
                    WEFT_INLINE_LAMBDA { put(part + i, get(dy + i, count) * (get(x + i, count) * r), true, count); });
    return;
  }
  const A dot = sum_of<T>(n, [=](auto sum, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto d = get(dy + i, count), u = get(x + i, count) * r;
    put(part + i, d * u, true, count);
    return fma(get(weight + i, count) * d, u, sum);
  });
  const A c = dot * r / static_cast<A>(n);
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    put(dx + i, r * (get(weight + i, count) * get(dy + i, count) - get(x + i, count) * c), add, count);
  });
}
