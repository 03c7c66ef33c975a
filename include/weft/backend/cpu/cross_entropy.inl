// Cross-entropy of one target. Included once per target by cross_entropy.hpp.

/// sums[0] = sum exp(x - m), and sums[1] = sum (x - m) if WithSum.
template <bool WithSum, class T>
inline void exp_sums(std::int64_t n, const T* x, accumulate_t<T> m, accumulate_t<T>* sums) {
  typedef accumulate_t<T> A;
  const auto high = splat(m);
  const auto both = sums_of<T>(n, [=](auto sum, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto value = get(x + i, count) - high;
    sum.first += keep(exp_flushed(value), count, A(0));
    if constexpr (WithSum) sum.second += keep(value, count, A(0));
    return sum;
  });
  sums[0] = both.first;
  if constexpr (WithSum) sums[1] = both.second;
}

/// dx = (p - everywhere) * g, where p = exp(x - m) / exp(log_sum), and (p - everywhere - at_target) * g in `column` if
/// it is inside. x - m loses nothing where it matters, as x - (m + log_sum) would beside a large m.
template <class T>
inline void cross_entropy_backward_row(std::int64_t n, const T* x, std::int64_t column, accumulate_t<T> m,
                                       accumulate_t<T> log_sum, accumulate_t<T> g, accumulate_t<T> everywhere,
                                       accumulate_t<T> at_target, T* dx) {
  const bool inside = column >= 0 && column < n;
  const auto value = inside ? get(x + column, first{1}) : splat(m);
  const auto inverse = exp_flushed(splat(-log_sum)), scale = inverse * g, shift = splat(-everywhere * g);
  sweep<T>(n, [=](std::int64_t i, auto count)
                  WEFT_INLINE_LAMBDA { set(dx + i, fma(exp_flushed(get(x + i, count) - m), scale, shift), count); });
  if (inside) set(dx + column, (exp_flushed(value - m) * inverse - everywhere - at_target) * g, first{1});
}
