// Statistics of one target. Included once per target by statistics.hpp.

/// What a fold over an array carries: V and the type of its comparisons.
template <class V, class Mask>
struct running_statistics {
  vec_f64 squares;
  V low, high;
  Mask finite;  // minus their number, lane by lane
};
WEFT_INLINE vec_i32 is_finite(vec v) { return abs(v) < splat(__builtin_inff()); }  // -1 or 0; false for NaN
WEFT_INLINE vec_i64 is_finite(vec_f64 v) { return abs(v) < splat(__builtin_inf()); }

template <class Mask>
WEFT_INLINE std::int64_t minus_total(Mask counts) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) n -= counts[i];
  return n;
}

/// Of at most 2^31 elements. Lanes behind the last element are made NaN, so that they count for nothing.
template <class T>
inline array_statistics statistics_block(std::int64_t n, const T* x) {
  typedef typename vector_of<T>::type V;
  typedef accumulate_t<T> A;
  typedef decltype(is_finite(V())) Mask;
  typedef running_statistics<V, Mask> running;
  const V infinity = splat(static_cast<A>(__builtin_inff())), zero = splat(A(0));
  const running r = fold<T>(
      n, running{splat(0.0), infinity, -infinity, Mask{}},
      [=](running a, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
        const V v = keep(get(x + i, count), count, static_cast<A>(__builtin_nanf("")));
        const Mask finite = is_finite(v);
        return running{a.squares + squares(finite ? v : zero), smaller(finite ? v : infinity, a.low),
                       larger(finite ? v : -infinity, a.high), a.finite + finite};
      },
      [](running a, running b) WEFT_INLINE_LAMBDA {
        return running{a.squares + b.squares, smaller(a.low, b.low), larger(a.high, b.high), a.finite + b.finite};
      });
  return {total(r.squares), static_cast<double>(-largest(-r.low)), static_cast<double>(largest(r.high)), n,
          n - minus_total(r.finite)};
}

template <class T>
inline std::int64_t zero_not_finite_block(std::int64_t n, T* x) {
  typedef typename vector_of<T>::type V;
  typedef decltype(is_finite(V())) Mask;
  Mask finite{};
  sweep<T>(n, [&](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const V v = get(x + i, count);  // zeros behind the last element, which are finite
    const Mask here = is_finite(v);
    set(x + i, here ? v : splat(accumulate_t<T>(0)), count);
    finite += ~here;
  });
  return minus_total(finite);
}
