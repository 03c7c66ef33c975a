// LayerNorm of one target. Included once per target by layer_norm.hpp.

template <class T>
inline accumulate_t<T> row_mean(std::int64_t n, const T* x) {
  typedef accumulate_t<T> A;
  return total(fold<T>(
             n, splat(A(0)),
             [=](auto sum, std::int64_t i, auto count) WEFT_INLINE_LAMBDA { return sum + get(x + i, count); },
             [](auto a, auto b) WEFT_INLINE_LAMBDA { return a + b; })) /
         static_cast<A>(n);
}

/// mean((x - mean)^2).
template <class T>
inline accumulate_t<T> row_variance(std::int64_t n, const T* x, accumulate_t<T> mean) {
  typedef accumulate_t<T> A;
  return total(fold<T>(
             n, splat(A(0)),
             [=](auto sum, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
               const auto d = keep(get(x + i, count) - mean, count, A(0));
               return fma(d, d, sum);
             },
             [](auto a, auto b) WEFT_INLINE_LAMBDA { return a + b; })) /
         static_cast<A>(n);
}

template <class T>
inline void layer_norm_row(std::int64_t n, const T* x, const T* weight, const T* bias, accumulate_t<T> mean,
                           accumulate_t<T> r, T* y) {
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    set(y + i, fma((get(x + i, count) - mean) * r, get(weight + i, count), get(bias + i, count)), count);
  });
}

/// weight_part += dy * (x - mean) * r, bias_part += dy.
template <class T>
inline void layer_norm_weight_row(std::int64_t n, const T* x, const T* dy, accumulate_t<T> mean, accumulate_t<T> r,
                                  accumulate_t<T>* weight_part, accumulate_t<T>* bias_part) {
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto d = get(dy + i, count);
    put(weight_part + i, d * ((get(x + i, count) - mean) * r), true, count);
    put(bias_part + i, d, true, count);
  });
}

/// dx (+)= r * (g - mean(g) - u * mean(g * u)), where g = w*dy and u = (x - mean) * r.
template <class T>
inline void layer_norm_input_row(std::int64_t n, const T* x, const T* weight, const T* dy, accumulate_t<T> mean,
                                 accumulate_t<T> r, T* dx, bool add) {
  typedef accumulate_t<T> A;
  const auto plus = [](auto a, auto b) WEFT_INLINE_LAMBDA { return a + b; };
  const A sum = total(fold<T>(
      n, splat(A(0)),
      [=](auto so_far, std::int64_t i, auto count)
          WEFT_INLINE_LAMBDA { return fma(get(weight + i, count), get(dy + i, count), so_far); },
      plus));
  const A dot = total(fold<T>(
      n, splat(A(0)),
      [=](auto so_far, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
        return fma(get(weight + i, count) * get(dy + i, count), (get(x + i, count) - mean) * r, so_far);
      },
      plus));
  const A mean_g = sum / static_cast<A>(n), mean_gu = dot / static_cast<A>(n);
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto u = (get(x + i, count) - mean) * r;
    put(dx + i, r * (get(weight + i, count) * get(dy + i, count) - mean_g - u * mean_gu), add, count);
  });
}
