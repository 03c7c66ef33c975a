// LayerNorm of one target. Included once per target by layer_norm.hpp.

template <class T>
inline accumulate_t<T> row_mean(std::int64_t n, const T* x) {
  return sum_of<T>(n,
                   [=](auto sum, std::int64_t i, auto count) WEFT_INLINE_LAMBDA { return sum + get(x + i, count); }) /
         static_cast<accumulate_t<T>>(n);
}

/// sums[0] = sum (x - about), sums[1] = sum (x - about)^2.
template <class T>
inline void sums_about(std::int64_t n, const T* x, accumulate_t<T> about, accumulate_t<T>* sums) {
  const auto both = sums_of<T>(n, [=](auto sum, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto d = keep(get(x + i, count) - about, count, accumulate_t<T>(0));
    sum.first += d;
    sum.second = fma(d, d, sum.second);
    return sum;
  });
  sums[0] = both.first, sums[1] = both.second;
}

/// Of a row: (x - mean) * r. The mean is given as what it is rounded to, and the rest: x - mean loses nothing that way.
template <class A>
struct centre {
  A mean, rest, r;
  template <class V>
  WEFT_INLINE V operator()(V x) const {
    return (x - mean - rest) * r;
  }
};

template <class T>
inline void layer_norm_row(std::int64_t n, const T* x, const T* weight, const T* bias, accumulate_t<T> mean,
                           accumulate_t<T> rest, accumulate_t<T> r, T* y) {
  const centre<accumulate_t<T>> u{mean, rest, r};
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    set(y + i, fma(u(get(x + i, count)), get(weight + i, count), get(bias + i, count)), count);
  });
}

/// weight_part += dy * (x - mean) * r, bias_part += dy.
template <class T>
inline void layer_norm_weight_row(std::int64_t n, const T* x, const T* dy, accumulate_t<T> mean, accumulate_t<T> rest,
                                  accumulate_t<T> r, accumulate_t<T>* weight_part, accumulate_t<T>* bias_part) {
  const centre<accumulate_t<T>> u{mean, rest, r};
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto d = get(dy + i, count);
    put(weight_part + i, d * u(get(x + i, count)), true, count);
    put(bias_part + i, d, true, count);
  });
}

/// dx (+)= r * (g - mean(g) - u * mean(g * u)), where g = w*dy, rounded, and u = (x - mean) * r: g of one column is its
/// own mean, and dx then 0.
template <class T>
inline void layer_norm_input_row(std::int64_t n, const T* x, const T* weight, const T* dy, accumulate_t<T> mean,
                                 accumulate_t<T> rest, accumulate_t<T> r, T* dx, bool add) {
  typedef accumulate_t<T> A;
  const centre<A> u{mean, rest, r};
  const A sum = sum_of<T>(n, [=](auto so_far, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    return rounded(get(weight + i, count) * get(dy + i, count)) + so_far;
  });
  const A dot = sum_of<T>(n, [=](auto so_far, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    return fma(get(weight + i, count) * get(dy + i, count), u(get(x + i, count)), so_far);
  });
  const A mean_g = sum / static_cast<A>(n), mean_gu = dot / static_cast<A>(n);
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto g = rounded(get(weight + i, count) * get(dy + i, count));
    put(dx + i, r * (g - mean_g - u(get(x + i, count)) * mean_gu), add, count);
  });
}
