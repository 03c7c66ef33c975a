// Element-wise functions of one tensor: exp, silu, gelu and their kin. Invariant: only the linear ones take a pending
// sum.
#pragma once

#include <cmath>
#include <limits>

#include <weft/autograd/operate.hpp>
#include <weft/backend/concept.hpp>
#include <weft/backend/default.hpp>
#include <weft/core/finite.hpp>
#include <weft/core/refusal.hpp>

namespace weft {
namespace detail {

template <class Backend, class T>
struct unary_operator {
  using queue = typename Backend::queue;
  /// One function's kernels: the operator around them is compiled once.
  struct kernels {
    void (*apply)(queue&, std::int64_t n, const T* x, T* y);
    void (*apply_backward)(queue&, std::int64_t n, const T* x, const T* dy, T* dx, bool add);
    unary which;
  };

  static value forward(const value& x, kernels f);
  static operation what(const value& x, const kernels& f) {
    return {name_of(f.which), vjp, 8.0 * static_cast<double>(x.held().elements()), computed_by(f.which)};
  }
  static void keep(tape_node& node, const value& x, const kernels& f) { node.set(f), node.save(x); }

 private:
  static void vjp(context& ctx, tape_node& node) {
    const local_array& dy = node.output_gradient();
    compute_gradient<Backend, T>(ctx, node, 0, [&](T* dx, bool add) {
      node.template get<kernels>().apply_backward(ctx.queue<Backend>(), dy.elements(), node.saved(0).template as<T>(),
                                                  dy.template as<T>(), dx, add);
    });
  }
};

template <class Backend, class T>
value unary_operator<Backend, T>::forward(const value& x, typename unary_operator<Backend, T>::kernels f) {
  return operate_like<T>(
      x, what(x, f), {&x},
      [&](const local_array& y) {
        f.apply(x.ctx->queue<Backend>(), y.elements(), x.held().template as<T>(), y.template as<T>());
      },
      [&](tape_node& node) { keep(node, x, f); });
}

template <class Backend, class T>
struct scale_operator {
  static value forward(const value& x, double factor);
  static void vjp(context& ctx, tape_node& node) {
    const local_array& dy = node.output_gradient();
    compute_gradient<Backend, T>(ctx, node, 0, [&](T* dx, bool add) {
      Backend::scale(ctx.queue<Backend>(), dy.elements(), node.template get<double>(), dy.template as<T>(), dx, add);
    });
  }
};

template <class Backend, class T>
value scale_operator<Backend, T>::forward(const value& x, double factor) {
  return operate_like<T>(
      x, {"scale", vjp, static_cast<double>(x.held().elements()), computed_by(factor)}, {&x},
      [&](const local_array& y) {
        Backend::scale(x.ctx->queue<Backend>(), y.elements(), factor, x.held().template as<T>(), y.template as<T>(),
                       false);
      },
      [&](tape_node& node) { node.set(factor); });
}

template <unary F, any_tensor X>
X nonlinear(const X& x) {
  static_assert(
      none<pending_in<layout_of<X>>>,
      "weft: a non-linear function of a pending sum is not the sum of the functions: all_reduce<axis> it first");
  if constexpr (none<integers_in<X>> && none<pending_in<layout_of<X>>>) {
    using Backend = typename X::backend;
    using T = typename X::element_type;
    return X(unary_operator<Backend, T>::forward(
        untyped(x), {Backend::template apply<F, T>, Backend::template apply_backward<F, T>, F}));
  } else {
    return x;
  }
}

}  // namespace detail

namespace detail {
/// Whether kernels of T, which compute in fp32, would take the factor for 0, infinity or a subnormal number.
template <class T>
bool beyond_float(double factor) {
  using limits = std::numeric_limits<float>;
  const double size = std::abs(factor);
  return !std::same_as<T, double> && is_finite(factor) && factor != 0 && (size < limits::min() || size > limits::max());
}
}  // namespace detail

/// Element-wise functions. Shape and placement as x; a pending sum is refused. Cost: one read and one write of x, 8
/// operations an element whichever it is.
#define WEFT_DETAIL_UNARY(function)                                                                 \
  template <any_tensor X>                                                                           \
  X function(const X& x) {                                                                          \
    static_assert(detail::none<integers_in<X>>,                                                     \
                  "weft: " #function "(x) takes floating elements: " #function "(cast<float>(x))"); \
    return detail::nonlinear<unary::function>(x);                                                   \
  }
WEFT_DETAIL_UNARY(exp)
WEFT_DETAIL_UNARY(log)
WEFT_DETAIL_UNARY(sqrt)
WEFT_DETAIL_UNARY(rsqrt)
WEFT_DETAIL_UNARY(reciprocal)
WEFT_DETAIL_UNARY(square)
WEFT_DETAIL_UNARY(abs)
WEFT_DETAIL_UNARY(tanh)
WEFT_DETAIL_UNARY(sigmoid)
WEFT_DETAIL_UNARY(relu)
WEFT_DETAIL_UNARY(silu)        // x * sigmoid(x)
WEFT_DETAIL_UNARY(gelu)        // tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
WEFT_DETAIL_UNARY(gelu_exact)  // 0.5 x (1 + erf(x / sqrt(2)))
#undef WEFT_DETAIL_UNARY

/// factor * x, also written so; -x is -1 * x. Shape as x. Linear: any placement, pending sums too. Cost: an operation
/// an element; two for a factor beyond fp32's numbers.
template <any_tensor X>
X scale(const X& x, double factor) {
  static_assert(detail::none<integers_in<X>>,
                "weft: scale(x, number) and number * x take floating elements: scale(cast<float>(x), number)");
  if constexpr (!detail::none<integers_in<X>>)
    return x;
  else if (const double root = std::sqrt(std::abs(factor)); detail::beyond_float<typename X::element_type>(factor))
    return scale(scale(x, root), factor / root);
  else
    return X(detail::scale_operator<typename X::backend, typename X::element_type>::forward(untyped(x), factor));
}
template <class T, class D, class L, class B>
basic_tensor<T, D, L, B> operator*(double factor, const basic_tensor<T, D, L, B>& x) {
  return scale(x, factor);
}
template <class T, class D, class L, class B>
basic_tensor<T, D, L, B> operator*(const basic_tensor<T, D, L, B>& x, double factor) {
  return scale(x, factor);
}
template <any_tensor X>
X operator-(const X& x) {
  return scale(x, -1);
}

}  // namespace weft
