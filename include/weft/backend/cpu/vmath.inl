// Vector mathematics of one target. Included once per target by vmath.hpp.
// Range reduction after Cody & Waite; polynomial coefficients from the Cephes library (S. Moshier, single precision).

/// The vector a T is computed in, and its number of lanes.
template <class T>
struct vector_of {
  typedef vec type;
  static constexpr int width = lanes;
};
template <>
struct vector_of<double> {
  typedef vec_f64 type;
  static constexpr int width = lanes / 2;
};

typedef std::int64_t vec_i64 __attribute__((vector_size(4 * lanes)));

/// How many elements a load or store touches: all lanes, or the first n.
struct all {};
struct first {
  std::int64_t n;
};

// Part of a vector is read and written out of line: that happens once a row, and would double every loop's code.
// Vectors go by reference: compilers differ in how they hand them on, and a program may link what another one compiled.
template <class T, class V>
[[gnu::noinline]] inline void load_first(const T* p, V& v, std::int64_t n) {
  v = load(p, n);
}
template <class T, class V>
[[gnu::noinline]] inline void store_first(T* p, const V& v, std::int64_t n) {
  store(p, v, n);
}

template <class T>
WEFT_INLINE auto get(const T* p, all) {
  return load(p);
}
template <class T>
WEFT_INLINE auto get(const T* p, first count) {
  decltype(load(p)) v;
  load_first(p, v, count.n);
  return v;
}  // zeros beyond
template <class T, class V>
WEFT_INLINE void set(T* p, V v, all) {
  store(p, v);
}
template <class T, class V>
WEFT_INLINE void set(T* p, V v, first count) {
  store_first(p, v, count.n);
}
/// Stores, or adds to what is there.
template <class T, class V, class Count>
WEFT_INLINE void put(T* p, V v, bool add, Count count) {
  if (add) v += get(p, count);
  set(p, v, count);
}

/// Calls f(i, count) for every vector of [0, n), the last one maybe not full.
template <class T, class F>
WEFT_INLINE void sweep(std::int64_t n, F f) {
  constexpr int width = vector_of<T>::width;
  std::int64_t i = 0;
  for (; i + width <= n; i += width) f(i, all{});
  if (i < n) f(i, first{n - i});
}

/// Folds [i, n) into four running vectors, so that no addition waits for the one before it, and joins them in order.
/// f(running, i, count) returns the new running vector; a vector that is not full goes to the first one.
template <class T, class V, class F, class Join>
WEFT_INLINE V fold(std::int64_t i, std::int64_t n, V start, F f, Join join) {
  constexpr int width = vector_of<T>::width;
  V a = start, b = start, c = start, d = start;
  for (; i + 4 * width <= n; i += 4 * width) {
    a = f(a, i, all{});
    b = f(b, i + width, all{});
    c = f(c, i + 2 * width, all{});
    d = f(d, i + 3 * width, all{});
  }
  for (; i + width <= n; i += width) a = f(a, i, all{});
  if (i < n) a = f(a, i, first{n - i});
  return join(join(a, b), join(c, d));
}
template <class T, class V, class F, class Join>
WEFT_INLINE V fold(std::int64_t n, V start, F f, Join join) {
  return fold<T>(0, n, start, f, join);
}

/// Lanes from n on become `other`.
WEFT_INLINE vec_i32 numbered(vec) {
  vec_i32 v;
  for (int i = 0; i < lanes; ++i) v[i] = i;
  return v;
}
WEFT_INLINE vec_i64 numbered(vec_f64) {
  vec_i64 v;
  for (int i = 0; i < lanes / 2; ++i) v[i] = i;
  return v;
}
template <class V, class A>
WEFT_INLINE V keep(V v, all, A) {
  return v;
}
WEFT_INLINE vec keep(vec v, first count, float other) {
  return numbered(v) < static_cast<std::int32_t>(count.n) ? v : splat(other);
}
WEFT_INLINE vec_f64 keep(vec_f64 v, first count, double other) { return numbered(v) < count.n ? v : splat(other); }

/// a > b ? a : b, and b if either is NaN, in one instruction.
WEFT_INLINE vec larger(vec a, vec b) {
#if WEFT_TARGET == 0
  return a > b ? a : b;
#else
  vec v;
  __asm__("vmaxps %2, %1, %0" : "=v"(v) : "v"(a), "v"(b));
  return v;
#endif
}
WEFT_INLINE vec smaller(vec a, vec b) {
#if WEFT_TARGET == 0
  return a < b ? a : b;
#else
  vec v;
  __asm__("vminps %2, %1, %0" : "=v"(v) : "v"(a), "v"(b));
  return v;
#endif
}
WEFT_INLINE vec_f64 larger(vec_f64 a, vec_f64 b) { return a > b ? a : b; }
WEFT_INLINE vec_f64 smaller(vec_f64 a, vec_f64 b) { return a < b ? a : b; }
WEFT_INLINE vec_f64 abs(vec_f64 v) {
  return reinterpret_cast<vec_f64>(reinterpret_cast<vec_i64>(v) & 0x7fffffffffffffff);
}
WEFT_INLINE vec_f64 sqrt(vec_f64 v) {
#if WEFT_TARGET == 0
  for (int i = 0; i < lanes / 2; ++i) v[i] = __builtin_sqrt(v[i]);
#else
  __asm__("vsqrtpd %1, %0" : "=v"(v) : "v"(v));
#endif
  return v;
}

// Sums and maxima over lanes, by halves.
typedef float vec4 __attribute__((vector_size(16)));
typedef double vec2 __attribute__((vector_size(16)));
WEFT_INLINE float total(vec4 v) {
  const vec4 w = v + __builtin_shufflevector(v, v, 2, 3, 2, 3);
  return w[0] + w[1];
}
WEFT_INLINE float largest(vec4 v) {
  const vec4 u = __builtin_shufflevector(v, v, 2, 3, 2, 3);
  const vec4 w = v > u ? v : u;
  return w[0] > w[1] ? w[0] : w[1];
}
WEFT_INLINE double total(vec2 v) { return v[0] + v[1]; }
WEFT_INLINE double largest(vec2 v) { return v[0] > v[1] ? v[0] : v[1]; }
#if WEFT_TARGET >= 1
typedef float vec8 __attribute__((vector_size(32)));
typedef double vec4d __attribute__((vector_size(32)));
WEFT_INLINE float total(vec8 v) {
  return total(__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
WEFT_INLINE float largest(vec8 v) {
  const vec4 a = __builtin_shufflevector(v, v, 0, 1, 2, 3), b = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  return largest(a > b ? a : b);
}
WEFT_INLINE double total(vec4d v) {
  return total(__builtin_shufflevector(v, v, 0, 1) + __builtin_shufflevector(v, v, 2, 3));
}
WEFT_INLINE double largest(vec4d v) {
  const vec2 a = __builtin_shufflevector(v, v, 0, 1), b = __builtin_shufflevector(v, v, 2, 3);
  return largest(a > b ? a : b);
}
#endif
#if WEFT_TARGET == 2
WEFT_INLINE float total(vec v) {
  return total(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
               __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
}
WEFT_INLINE float largest(vec v) {
  const vec8 a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  const vec8 b = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  return largest(a > b ? a : b);
}
WEFT_INLINE double total(vec_f64 v) {
  return total(__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
WEFT_INLINE double largest(vec_f64 v) {
  const vec4d a = __builtin_shufflevector(v, v, 0, 1, 2, 3), b = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  return largest(a > b ? a : b);
}
#endif

/// The runs of a long sum, whose own sums are added up in double: no running vector is added to more than some hundred
/// times, however large n is.
constexpr std::int64_t run_of_sum = 4096;

/// Sum over [0, n): f(running, i, count) adds to the running vector what there is at i. The sum of a single run stays
/// in registers, a sixth of a LayerNorm's time.
template <class T, class F>
WEFT_INLINE accumulate_t<T> sum_of(std::int64_t n, F f) {
  typedef accumulate_t<T> A;
  double sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += run_of_sum) {
    const A part = total(fold<T>(begin, n - begin < run_of_sum ? n : begin + run_of_sum, splat(A(0)), f,
                                 [](auto a, auto b) WEFT_INLINE_LAMBDA { return a + b; }));
    if (n <= run_of_sum) return part;
    sum += static_cast<double>(part);
  }
  return static_cast<A>(sum);
}

template <class V>
struct two {
  V first, second;
};
/// The same of two sums at once.
template <class T, class F>
WEFT_INLINE two<accumulate_t<T>> sums_of(std::int64_t n, F f) {
  typedef accumulate_t<T> A;
  typedef two<typename vector_of<T>::type> pair;
  double first = 0, second = 0;
  for (std::int64_t begin = 0; begin < n; begin += run_of_sum) {
    const pair part = fold<T>(begin, n - begin < run_of_sum ? n : begin + run_of_sum, pair{splat(A(0)), splat(A(0))}, f,
                              [](pair a, pair b) WEFT_INLINE_LAMBDA {
                                return pair{a.first + b.first, a.second + b.second};
                              });
    const A one = total(part.first), other = total(part.second);
    if (n <= run_of_sum) return {one, other};
    first += static_cast<double>(one), second += static_cast<double>(other);
  }
  return {static_cast<A>(first), static_cast<A>(second)};
}

/// Squares in double, neighbours or halves added: as many lanes as a vector of double has.
WEFT_INLINE vec_f64 squares(vec_f64 v) { return v * v; }
WEFT_INLINE vec_f64 squares(vec v) {
#if WEFT_TARGET == 2
  const auto a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  const auto b = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#elif WEFT_TARGET == 1
  const auto a = __builtin_shufflevector(v, v, 0, 1, 2, 3), b = __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
  const auto a = __builtin_shufflevector(v, v, 0, 1), b = __builtin_shufflevector(v, v, 2, 3);
#endif
  const vec_f64 x = __builtin_convertvector(a, vec_f64), y = __builtin_convertvector(b, vec_f64);
  return fma(x, x, y * y);
}

inline constexpr float ln2_high = 0.693359375f,
                       ln2_low = -2.12194440e-4f;  // ln2_high has 9 bits: n * ln2_high is exact

/// x = k ln 2 + ln y with a whole number k, which n holds as an integer.
struct reduced {
  vec y, k;
  vec_i32 n;
};
WEFT_INLINE reduced exp_reduced(vec x) {
#if defined(__clang__)
#pragma clang fp reassociate(off)  // t - shift is not x * log2(e)
#endif
  const vec shift = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  const vec t = fma(x, splat(1.44269504088896341f), shift);
  const vec k = t - shift;
  const vec r = fma(k, splat(-ln2_low), fma(k, splat(-ln2_high), x));
  vec p = fma(splat(1.9875691500e-4f), r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  return {fma(p, r * r, r) + 1.0f, k, reinterpret_cast<vec_i32>(bits_of(t) - bits_of(shift))};
}
WEFT_INLINE vec power_of_two(vec_i32 n) { return reinterpret_cast<vec>((n + 127) << 23); }

/// e^x, subnormals and infinity included.
WEFT_INLINE vec exp(vec x) {
  const reduced e = exp_reduced(larger(splat(-104.0f), smaller(splat(89.0f), x)));  // beyond: 0, infinity; NaN passes
#if WEFT_TARGET == 2
  vec v;
  __asm__("vscalefps %2, %1, %0" : "=v"(v) : "v"(e.y), "v"(e.k));
  return v;
#else
  const vec_i32 half = e.n >> 1;
  return e.y * power_of_two(half) * power_of_two(e.n - half);
#endif
}
/// e^x for x <= 88, with results below about 2^-126 flushed to 0: what softmax needs.
WEFT_INLINE vec exp_flushed(vec x) {
  const reduced e = exp_reduced(larger(splat(-87.0f), smaller(splat(88.0f), x)));
  return x < -87.0f ? vec{} : e.y * power_of_two(e.n);
}

/// Natural logarithm; -infinity at 0, NaN below.
WEFT_INLINE vec log(vec x) {
  const vec infinity = splat(__builtin_inff());
  const vec_i32 tiny = x < 1.17549435e-38f;
  const vec scaled = select(tiny, x * 8388608.0f, x);  // 2^23
  const vec_i32 u =
      reinterpret_cast<vec_i32>(scaled) & 0x7fffffff;  // below 0 the result is replaced: no overflow on the way
  const vec_i32 k = (u - 0x3f3504f3) >> 23;            // so that the mantissa lies in [sqrt(1/2), sqrt(2))
  const vec f = reinterpret_cast<vec>(u - (k << 23)) - 1.0f;
  const vec e = __builtin_convertvector(k + (tiny & -23), vec);
  vec p = fma(splat(7.0376836292e-2f), f, splat(-1.1514610310e-1f));
  p = fma(p, f, splat(1.1676998740e-1f));
  p = fma(p, f, splat(-1.2420140846e-1f));
  p = fma(p, f, splat(1.4249322787e-1f));
  p = fma(p, f, splat(-1.6668057665e-1f));
  p = fma(p, f, splat(2.0000714765e-1f));
  p = fma(p, f, splat(-2.4999993993e-1f));
  p = fma(p, f, splat(3.3333331174e-1f));
  const vec z = f * f;
  vec y = fma(e, splat(ln2_low), z * f * p);
  y = fma(splat(-0.5f), z, y) + f;
  y = fma(e, splat(ln2_high), y);
  y = x == infinity ? infinity : y;
  y = x == 0.0f ? -infinity : y;
  return x >= 0.0f ? y : splat(__builtin_nanf(""));
}

WEFT_INLINE vec sigmoid(vec x) { return 1.0f / (1.0f + exp(-x)); }

WEFT_INLINE vec tanh(vec x) {
  const vec a = abs(x), z = x * x;
  vec p = fma(splat(-5.70498872745e-3f), z, splat(2.06390887954e-2f));
  p = fma(p, z, splat(-5.37397155531e-2f));
  p = fma(p, z, splat(1.33314422036e-1f));
  p = fma(p, z, splat(-3.33332819422e-1f));
  const vec small = fma(p * z, x, x);
  const vec large = 1.0f - 2.0f / (exp(a + a) + 1.0f);
  return from_bits(bits_of(a < 0.625f ? small : large) | (bits_of(x) & 0x80000000u));
}

/// Complementary error function, lane by lane.
WEFT_INLINE vec erfc(vec x) {
  for (int i = 0; i < lanes; ++i) x[i] = __builtin_erfcf(x[i]);
  return x;
}
#define WEFT_LANE_BY_LANE(name)                                        \
  WEFT_INLINE vec_f64 name(vec_f64 x) {                                \
    for (int i = 0; i < lanes / 2; ++i) x[i] = __builtin_##name(x[i]); \
    return x;                                                          \
  }
WEFT_LANE_BY_LANE(exp)
WEFT_LANE_BY_LANE(log)
WEFT_LANE_BY_LANE(tanh)
WEFT_LANE_BY_LANE(erfc)
#undef WEFT_LANE_BY_LANE
WEFT_INLINE vec_f64 exp_flushed(vec_f64 x) { return exp(x); }
WEFT_INLINE vec_f64 sigmoid(vec_f64 x) { return 1.0 / (1.0 + exp(-x)); }
