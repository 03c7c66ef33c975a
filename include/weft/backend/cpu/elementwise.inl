// Element-wise kernels of one target. Included once per target by elementwise.hpp.
// The functions exist for float and double; 16-bit arrays pass through them in small blocks, widened.

template <unary F, class V>
WEFT_INLINE V evaluate(V x) {
  typedef std::remove_cvref_t<decltype(x[0])> A;
  if constexpr (F == unary::identity) return x;
  if constexpr (F == unary::negate) return -x;
  if constexpr (F == unary::exp) return exp(x);
  if constexpr (F == unary::log) return log(x);
  if constexpr (F == unary::sqrt) return sqrt(x);
  if constexpr (F == unary::rsqrt) return A(1) / sqrt(x);
  if constexpr (F == unary::reciprocal) return A(1) / x;
  if constexpr (F == unary::square) return x * x;
  if constexpr (F == unary::abs) return abs(x);
  if constexpr (F == unary::tanh) return tanh(x);
  if constexpr (F == unary::sigmoid) return sigmoid(x);
  if constexpr (F == unary::relu) return x < A(0) ? V{} : x;
  if constexpr (F == unary::silu) return x * sigmoid(x);
  if constexpr (F == unary::gelu) {
    const V inner = A(0.7978845608028654) * fma(A(0.044715) * x * x, x, x);
    return A(0.5) * x * (A(1) + tanh(inner));
  }
  if constexpr (F == unary::gelu_exact) return A(0.5) * x * erfc(x * A(-0.7071067811865476));
}

template <unary F, class V>
WEFT_INLINE V derivative(V x) {
  typedef std::remove_cvref_t<decltype(x[0])> A;
  const V one = splat(A(1)), zero = V{};
  if constexpr (F == unary::identity) return one;
  if constexpr (F == unary::negate) return -one;
  if constexpr (F == unary::exp) return exp(x);
  if constexpr (F == unary::sqrt) return A(0.5) / sqrt(x);
  if constexpr (F == unary::rsqrt) return A(-0.5) / sqrt(x) / x;
  if constexpr (F == unary::reciprocal) {
    const V r = A(1) / x;  // whose square is a number where that of x is not
    return -r * r;
  }
  if constexpr (F == unary::square) return x + x;
  if constexpr (F == unary::abs) {
    const V negative = x < A(0) ? -one : zero;
    return x > A(0) ? one : negative;
  }
  if constexpr (F == unary::tanh) {
    const V t = tanh(x);
    return A(1) - t * t;
  }
  if constexpr (F == unary::sigmoid) {
    const V s = sigmoid(x);
    return s * (A(1) - s);
  }
  if constexpr (F == unary::relu) return x <= A(0) ? zero : one;  // of NaN dy, as the output is x
  if constexpr (F == unary::silu) {
    const V s = sigmoid(x);
    return s * fma(x, A(1) - s, one);
  }
  if constexpr (F == unary::gelu) {
    const V near = larger(splat(A(-30)), smaller(splat(A(30)), x));  // it is 0 and 1 from there on
    const V square = near * near;
    const V t = tanh(A(0.7978845608028654) * fma(A(0.044715) * square, near, near));
    const V slope = A(0.7978845608028654) * (A(1) + A(3 * 0.044715) * square);
    return A(0.5) * (A(1) + t + near * (A(1) - t * t) * slope);
  }
  if constexpr (F == unary::gelu_exact)
    return A(0.5) * erfc(x * A(-0.7071067811865476)) + x * A(0.3989422804014327) * exp(A(-0.5) * x * x);
}

template <unary F, class V>
WEFT_INLINE V gradient(V x, V dy) {
  if constexpr (F == unary::log)
    return dy / x;  // a number where 1 / x isn't
  else
    return derivative<F>(x) * dy;
}

template <binary F, class V>
WEFT_INLINE V evaluate(V a, V b) {
  if constexpr (F == binary::add) return a + b;
  if constexpr (F == binary::subtract) return a - b;
  if constexpr (F == binary::multiply) return a * b;
  if constexpr (F == binary::divide) return a / b;
  if constexpr (F == binary::maximum) return larger(a, b);
  if constexpr (F == binary::minimum) return smaller(a, b);
}

// Loops over full vectors; n is a multiple of the lanes.
template <unary F, bool Backward, class A>
inline void map(std::int64_t n, const A* x, [[maybe_unused]] const A* dy, A* y) {
  for (std::int64_t i = 0; i < n; i += vector_of<A>::width) {
    if constexpr (Backward)
      store(y + i, gradient<F>(load(x + i), load(dy + i)));
    else
      store(y + i, evaluate<F>(load(x + i)));
  }
}
template <binary F, class A>
inline void map(std::int64_t n, const A* a, const A* b, A* y) {
  for (std::int64_t i = 0; i < n; i += vector_of<A>::width) store(y + i, evaluate<F>(load(a + i), load(b + i)));
}

#define WEFT_BINARY(name) \
  case binary::name:      \
    return map<binary::name>(n, a, b, y)
template <class A>
inline void map(binary f, std::int64_t n, const A* a, const A* b, A* y) {
  switch (f) {
    WEFT_BINARY(add);
    WEFT_BINARY(subtract);
    WEFT_BINARY(multiply);
    WEFT_BINARY(divide);
    WEFT_BINARY(maximum);
    WEFT_BINARY(minimum);
  }
}
#undef WEFT_BINARY

/// to (+)= factor * from.
template <class To, class From, class A>
inline void scale_block(std::int64_t n, A factor, const From* from, To* to, bool add) {
  sweep<From>(n, [=](std::int64_t i, auto count)
                     WEFT_INLINE_LAMBDA { put(to + i, factor * get(from + i, count), add, count); });
}
template <class To, class From>
inline void convert_block(std::int64_t n, const From* from, To* to, bool add) {
  sweep<From>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA { put(to + i, get(from + i, count), add, count); });
}

inline constexpr std::int64_t staged = 512;  // elements widened at a time

/// Widens up to `staged` elements (stride 0: one element for all), zeros up to a full vector beyond.
template <class T, class A>
inline void widen_block(std::int64_t n, const T* from, std::int64_t stride, A* to) {
  constexpr int width = vector_of<T>::width;
  if (stride == 1) {
    sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA { store(to + i, get(from + i, count)); });
  } else if (stride == 0) {
    const auto value = get(from, first{1});
    const auto everywhere = splat(value[0]);
    for (std::int64_t i = 0; i < n; i += width) store(to + i, everywhere);
  } else {
    T part[lanes];
    for (std::int64_t i = 0; i < n; i += width) {
      for (int j = 0; j < width; ++j) part[j] = from[(i + j < n ? i + j : n - 1) * stride];
      store(to + i, load(part));
    }
  }
}

/// y (+)= f(x), or f(x, dy) where dy is not null, over blocks: floats in place where whole vectors lie side by side,
/// else through buffers. Compiled once for all functions.
template <class T, class A = accumulate_t<T>>
inline void unary_block(void (*f)(std::int64_t n, const A* x, const A* dy, A* y), std::int64_t n, const T* x,
                        const T* dy, T* y, bool add) {
  constexpr int width = vector_of<T>::width;
  std::int64_t done = 0;
  if constexpr (sizeof(T) == sizeof(A))
    if (!add) {
      done = n / width * width;
      f(done, x, dy, y);
    }
  alignas(64) A from[staged], to[staged];
  for (; done < n; done += staged) {
    const std::int64_t count = n - done < staged ? n - done : staged;
    widen_block(count, x + done, 1, from);
    if (dy) widen_block(count, dy + done, 1, to);
    f((count + width - 1) / width * width, from, to, to);
    convert_block(count, to, y + done, add);
  }
}
template <unary F, class T>
inline void unary_block(std::int64_t n, const T* x, const T* dy, T* y, bool add) {
  unary_block<T>(map<F, false, accumulate_t<T>>, n, x, dy, y, add);
}
template <unary F, class T>
inline void unary_backward_block(std::int64_t n, const T* x, const T* dy, T* dx, bool add) {
  unary_block<T>(map<F, true, accumulate_t<T>>, n, x, dy, dx, add);
}

/// y = f(a, b); strides of a and b in elements, y contiguous.
template <class T>
inline void binary_block(binary f, std::int64_t n, const T* a, std::int64_t sa, const T* b, std::int64_t sb, T* y) {
  typedef accumulate_t<T> A;
  constexpr int width = vector_of<T>::width;
  std::int64_t done = 0;
  if constexpr (sizeof(T) == sizeof(A))
    if (sa == 1 && sb == 1) {
      done = n / width * width;
      map(f, done, a, b, y);
    }
  alignas(64) A left[staged], right[staged], to[staged];
  for (; done < n; done += staged) {
    const std::int64_t count = n - done < staged ? n - done : staged;
    widen_block(count, a + done * sa, sa, left);
    widen_block(count, b + done * sb, sb, right);
    map(f, (count + width - 1) / width * width, left, right, to);
    convert_block(count, to, y + done, false);
  }
}
