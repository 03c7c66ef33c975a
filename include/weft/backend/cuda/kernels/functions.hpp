// Functions of one and of two elements and their derivatives, scaling: kernel bodies. Invariant: each element is
// computed in the accumulate type and rounded once, and read by the thread that writes it, before it writes.
// Of n elements, to which an operand of b is repeated:
//   unary_kernel: 2 n T bytes, those of the function
//   unary_backward_kernel: 3 n T bytes, those of the derivative
//   binary_kernel: 3 n T bytes, n FLOPs
//   broadcast_kernel: (2 n + b) T bytes, n FLOPs
//   scale_kernel: 2 n T bytes, n FLOPs
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/cuda/kernels/strided.hpp>

namespace weft::gpu {
namespace detail {

template <class Block, class A>
WEFT_ON_DEVICE A sigmoid(Block& block, A x) {
  return 1 / (1 + block.exp(-x));
}

template <unary F, class Block, class A>
WEFT_ON_DEVICE A evaluate(Block& block, A x) {
  if constexpr (F == unary::identity) return x;
  if constexpr (F == unary::negate) return -x;
  if constexpr (F == unary::exp) return block.exp(x);
  if constexpr (F == unary::log) return block.log(x);
  if constexpr (F == unary::sqrt) return block.sqrt(x);
  if constexpr (F == unary::rsqrt) return 1 / block.sqrt(x);
  if constexpr (F == unary::reciprocal) return 1 / x;
  if constexpr (F == unary::square) return x * x;
  if constexpr (F == unary::abs) return block.abs(x);
  if constexpr (F == unary::tanh) return block.tanh(x);
  if constexpr (F == unary::sigmoid) return sigmoid(block, x);
  if constexpr (F == unary::relu) return x < 0 ? A(0) : x;
  if constexpr (F == unary::silu) return x * sigmoid(block, x);
  if constexpr (F == unary::gelu)
    return A(0.5) * x * (1 + block.tanh(A(0.7978845608028654) * (A(0.044715) * x * x * x + x)));
  if constexpr (F == unary::gelu_exact) return A(0.5) * x * block.erfc(x * A(-0.7071067811865476));
}

/// F'(x) * dy.
template <unary F, class Block, class A>
WEFT_ON_DEVICE A gradient(Block& block, A x, A dy) {
  if constexpr (F == unary::identity) return dy;
  if constexpr (F == unary::negate) return -dy;
  if constexpr (F == unary::exp) return block.exp(x) * dy;
  if constexpr (F == unary::log) return dy / x;  // a number where 1 / x isn't
  if constexpr (F == unary::sqrt) return A(0.5) / block.sqrt(x) * dy;
  if constexpr (F == unary::rsqrt) return A(-0.5) / block.sqrt(x) / x * dy;
  if constexpr (F == unary::reciprocal) return -(1 / x) * (1 / x) * dy;  // a number where the square of x is not
  if constexpr (F == unary::square) return (x + x) * dy;
  if constexpr (F == unary::abs) return A((x > 0) - (x < 0)) * dy;
  if constexpr (F == unary::tanh) {
    const A t = block.tanh(x);
    return (1 - t * t) * dy;
  }
  if constexpr (F == unary::sigmoid) {
    const A s = sigmoid(block, x);
    return s * (1 - s) * dy;
  }
  if constexpr (F == unary::relu) return x <= 0 ? 0 * dy : dy;  // of NaN dy, as the output is x
  if constexpr (F == unary::silu) {
    const A s = sigmoid(block, x);
    return s * (1 + x * (1 - s)) * dy;
  }
  if constexpr (F == unary::gelu) {
    const A near = x < -30 ? A(-30) : x > 30 ? A(30) : x;  // it is 0 and 1 from there on
    const A square = near * near, t = block.tanh(A(0.7978845608028654) * (A(0.044715) * square * near + near));
    const A slope = A(0.7978845608028654) * (1 + A(3 * 0.044715) * square);
    return A(0.5) * (1 + t + near * (1 - t * t) * slope) * dy;
  }
  if constexpr (F == unary::gelu_exact)
    return (A(0.5) * block.erfc(x * A(-0.7071067811865476)) + x * A(0.3989422804014327) * block.exp(A(-0.5) * x * x)) *
           dy;
}

template <class A>
WEFT_ON_DEVICE A evaluate(binary f, A a, A b) {
  switch (f) {
    case binary::add:
      return a + b;
    case binary::subtract:
      return a - b;
    case binary::multiply:
      return a * b;
    case binary::divide:
      return a / b;
    case binary::maximum:
      return a > b ? a : b;
    case binary::minimum:
      return a < b ? a : b;
  }
  return a;
}

}  // namespace detail

/// y = F(x), n elements each; y may be x.
template <unary F, class T>
struct unary_kernel {
  int64 n;
  const T* x;
  T* y;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<pack_size<T>>(block, n, packed, [&]<int N>(int64 i) {
      const pack<T, N> in = block.template load<N>(x + i);
      pack<T, N> out;
      for (int k = 0; k < N; ++k)
        out.at[k] = block.template narrow<T>(detail::evaluate<F>(block, block.widen(in.at[k])));
      block.store(y + i, out);
    });
  }
};

/// dx (+)= F'(x) dy; dx may be dy.
template <unary F, class T>
struct unary_backward_kernel {
  int64 n;
  const T *x, *dy;
  T* dx;
  bool add, packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<pack_size<T>>(block, n, packed, [&]<int N>(int64 i) {
      const pack<T, N> in = block.template load<N>(x + i), d = block.template load<N>(dy + i);
      pack<T, N> old{}, out;
      if (add) old = block.template load<N>(static_cast<const T*>(dx) + i);
      for (int k = 0; k < N; ++k) {
        const auto slope = detail::gradient<F>(block, block.widen(in.at[k]), block.widen(d.at[k]));
        out.at[k] = block.template narrow<T>(add ? block.widen(old.at[k]) + slope : slope);
      }
      block.store(dx + i, out);
    });
  }
};

/// y = f(a, b), n elements each; y may be a or b.
template <class T>
struct binary_kernel {
  binary f;
  int64 n;
  const T *a, *b;
  T* y;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<pack_size<T>>(block, n, packed, [&]<int N>(int64 i) {
      const pack<T, N> left = block.template load<N>(a + i), right = block.template load<N>(b + i);
      pack<T, N> out;
      for (int k = 0; k < N; ++k)
        out.at[k] = block.template narrow<T>(detail::evaluate(f, block.widen(left.at[k]), block.widen(right.at[k])));
      block.store(y + i, out);
    });
  }
};

/// The same of strided a and b, with y contiguous.
template <class T>
struct broadcast_kernel {
  binary f;
  strided_loop<2> loop;  // a, b
  const T *a, *b;
  T* y;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<1>(block, loop.n, false, [&]<int>(int64 i) {
      array_of<int64, 2> at;
      loop.offsets(i, at);
      if (loop.neighbours == 1) {
        y[i] = block.template narrow<T>(detail::evaluate(f, block.widen(a[at[0]]), block.widen(b[at[1]])));
        return;
      }
      constexpr int N = pack_size<T>;
      const pack<T, N> left = loop.template load<N>(block, 0, a + at[0]),
                       right = loop.template load<N>(block, 1, b + at[1]);
      pack<T, N> out;
      for (int k = 0; k < N; ++k)
        out.at[k] = block.template narrow<T>(detail::evaluate(f, block.widen(left.at[k]), block.widen(right.at[k])));
      block.store(y + i * N, out);
    });
  }
};

/// y (+)= factor * x; y may be x.
template <class T>
struct scale_kernel {
  int64 n;
  kernel_number factor;
  const T* x;
  T* y;
  bool add, packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    if (!factor.writes()) return;
    const auto by = static_cast<accumulate_t<T>>(factor.value());
    for_packs_of_grid<pack_size<T>>(block, n, packed, [&]<int N>(int64 i) {
      const pack<T, N> in = block.template load<N>(x + i);
      pack<T, N> old{}, out;
      if (add) old = block.template load<N>(static_cast<const T*>(y) + i);
      for (int k = 0; k < N; ++k) {
        const auto product = by * block.widen(in.at[k]);
        out.at[k] = block.template narrow<T>(add ? block.widen(old.at[k]) + product : product);
      }
      block.store(y + i, out);
    });
  }
};

}  // namespace weft::gpu
