// Element-wise kernels over contiguous arrays: unary and binary functions, scaling, conversion, filling.
// Invariant: every element is computed in the accumulate type and rounded once.
#pragma once

#include <cmath>

#include <weft/backend/cpu/common.hpp>

namespace weft::cpu {

/// `gelu` is the tanh form of Hendrycks & Gimpel (2016), `gelu_exact` is x * Phi(x).
enum class unary : std::uint8_t {
  identity, negate, exp, log, sqrt, rsqrt, reciprocal, square, abs, tanh, sigmoid, relu, silu, gelu, gelu_exact
};
enum class binary : std::uint8_t { add, subtract, multiply, divide, maximum, minimum };

namespace detail {

template <class A>
inline A sigmoid(A x) {
  return A(1) / (A(1) + std::exp(-x));
}

template <class A>
inline A evaluate(unary f, A x) {
  switch (f) {
    case unary::identity: return x;
    case unary::negate: return -x;
    case unary::exp: return std::exp(x);
    case unary::log: return std::log(x);
    case unary::sqrt: return std::sqrt(x);
    case unary::rsqrt: return A(1) / std::sqrt(x);
    case unary::reciprocal: return A(1) / x;
    case unary::square: return x * x;
    case unary::abs: return std::fabs(x);
    case unary::tanh: return std::tanh(x);
    case unary::sigmoid: return sigmoid(x);
    case unary::relu: return x > 0 ? x : A(0);
    case unary::silu: return x * sigmoid(x);
    case unary::gelu: {
      const A inner = A(0.7978845608028654) * (x + A(0.044715) * x * x * x);
      return A(0.5) * x * (A(1) + std::tanh(inner));
    }
    case unary::gelu_exact: return A(0.5) * x * std::erfc(-x * A(0.7071067811865476));
  }
  return x;
}

template <class A>
inline A derivative(unary f, A x) {
  switch (f) {
    case unary::identity: return 1;
    case unary::negate: return -1;
    case unary::exp: return std::exp(x);
    case unary::log: return A(1) / x;
    case unary::sqrt: return A(0.5) / std::sqrt(x);
    case unary::rsqrt: return A(-0.5) / (x * std::sqrt(x));
    case unary::reciprocal: return A(-1) / (x * x);
    case unary::square: return 2 * x;
    case unary::abs: return x > 0 ? A(1) : x < 0 ? A(-1) : A(0);
    case unary::tanh: {
      const A t = std::tanh(x);
      return 1 - t * t;
    }
    case unary::sigmoid: {
      const A s = sigmoid(x);
      return s * (1 - s);
    }
    case unary::relu: return x > 0 ? A(1) : A(0);
    case unary::silu: {
      const A s = sigmoid(x);
      return s * (1 + x * (1 - s));
    }
    case unary::gelu: {
      const A c = A(0.7978845608028654);
      const A t = std::tanh(c * (x + A(0.044715) * x * x * x));
      return A(0.5) * (1 + t) + A(0.5) * x * (1 - t * t) * c * (1 + A(3 * 0.044715) * x * x);
    }
    case unary::gelu_exact:
      return A(0.5) * std::erfc(-x * A(0.7071067811865476)) + x * A(0.3989422804014327) * std::exp(A(-0.5) * x * x);
  }
  return 1;
}

template <class A>
inline A evaluate(binary f, A a, A b) {
  switch (f) {
    case binary::add: return a + b;
    case binary::subtract: return a - b;
    case binary::multiply: return a * b;
    case binary::divide: return a / b;
    case binary::maximum: return a > b ? a : b;
    case binary::minimum: return a < b ? a : b;
  }
  return a;
}

}  // namespace detail

/// y = f(x); x and y have n elements and may be the same array.
template <class T>
void apply(team& workers, unary f, int64 n, const T* x, T* y) {
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) y[i] = detail::narrow<T>(detail::evaluate(f, detail::widen(x[i])));
  });
}

/// dx (+)= f'(x) * dy.
template <class T>
void apply_backward(team& workers, unary f, int64 n, const T* x, const T* dy, T* dx, bool add) {
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i)
      detail::put(dx[i], detail::derivative(f, detail::widen(x[i])) * detail::widen(dy[i]), add);
  });
}

/// y = f(a, b), all of n elements.
template <class T>
void apply(team& workers, binary f, int64 n, const T* a, const T* b, T* y) {
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i)
      y[i] = detail::narrow<T>(detail::evaluate(f, detail::widen(a[i]), detail::widen(b[i])));
  });
}

/// y (+)= factor * x.
template <class T>
void scale(team& workers, int64 n, double factor, const T* x, T* y, bool add) {
  const auto by = static_cast<accumulate_t<T>>(factor);
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) detail::put(y[i], by * detail::widen(x[i]), add);
  });
}

/// y (+)= x, converted to the element type of y.
template <class To, class From>
void convert(team& workers, int64 n, const From* x, To* y, bool add = false) {
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) {
      const auto value = detail::widen(x[i]);
      if (add) {
        y[i] = detail::narrow<To>(detail::widen(y[i]) + value);
      } else {
        y[i] = detail::narrow<To>(value);
      }
    }
  });
}

/// y = value, n times.
template <class T>
void fill(team& workers, int64 n, T value, T* y) {
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) y[i] = value;
  });
}

}  // namespace weft::cpu
