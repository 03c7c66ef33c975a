// Numbers beside tensors: x + 1, 1 - x, x / 3, 1 / x. (Products with a number are in op/elementwise.hpp.)
// Invariant: a number is added to what is whole or a slice, never to one addend of a sum.
#pragma once

#include <cmath>

#include <weft/core/finite.hpp>
#include <weft/core/refusal.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/view.hpp>

namespace weft {
namespace detail {

/// c as a tensor without dimensions, on x's rank.
template <class Backend, class T>
value number_beside(const value& x, double c) {
  value number{x.ctx, {}, x.ctx->make(dtype_of<T>, {}, memory::buffers), {}};
  Backend::fill(x.ctx->queue<Backend>(), number.data, c);
  return number;
}

template <any_tensor X>
X plus_number(const X& x, double c) {
  using Backend = typename X::backend;
  using T = typename X::element_type;
  static_assert(none<integers_in<X>>,
                "weft: x + number and x - number take floating elements: cast<float>(x) + number");
  static_assert(none<pending_in<layout_of<X>>>,
                "weft: a number is added to a pending sum, which would count it once per rank: all_reduce<axis>(x) the "
                "sum first");
  if constexpr (none<pending_in<layout_of<X>>> && none<integers_in<X>>) {
    const value number = number_beside<Backend, T>(untyped(x), c);
    static constexpr auto map = broadcast_of<dims_of<X>, dims<>>();
    return X(binary_operator<Backend, T>::forward(untyped(x), number, binary::add, map, valid_part(x), {}, c));
  } else {
    return x;
  }
}

/// A type whose numbers go further than T's.
template <class T>
using wider = std::conditional_t<sizeof(T) == 2, float, double>;
/// Whether T rounds c to infinity, or to a number with fewer digits than its own.
template <class T>
bool beyond_type(double c) {
  const auto rounded = std::abs(static_cast<double>(static_cast<accumulate_t<T>>(T(c))));
  const double least = std::same_as<T, fp16> ? 0x1p-14 : std::same_as<T, double> ? 0x1p-1022 : 0x1p-126;
  return is_finite(c) && c != 0 && !(is_finite(rounded) && rounded >= least);
}
template <any_tensor X>
X number_over(double c, const X& x) {
  using Backend = typename X::backend;
  using T = typename X::element_type;
  if constexpr (!std::same_as<T, double>)
    if (beyond_type<T>(c)) return cast<T>(number_over(c, cast<wider<T>>(x)));
  const value number = number_beside<Backend, T>(untyped(x), c);
  static constexpr auto map = broadcast_of<dims<>, dims_of<X>>();
  return X(binary_operator<Backend, T>::forward(number, untyped(x), binary::divide, map, {}, valid_part(x), c));
}

}  // namespace detail

// The tensor is spelled out, since clang 14 would ask whether a number, beside what becomes one, is a tensor.

/// x + c, also written c + x, and x - c. Shape and placement as x; a pending sum is refused, since every rank would add
/// c. c is rounded to x's type first. Cost: an operation an element.
template <class T, class D, class L, class B>
basic_tensor<T, D, L, B> operator+(const basic_tensor<T, D, L, B>& x, double c) {
  return detail::plus_number(x, c);
}
template <class T, class D, class L, class B>
basic_tensor<T, D, L, B> operator+(double c, const basic_tensor<T, D, L, B>& x) {
  return detail::plus_number(x, c);
}
template <class T, class D, class L, class B>
basic_tensor<T, D, L, B> operator-(const basic_tensor<T, D, L, B>& x, double c) {
  return detail::plus_number(x, -c);
}
/// c - x. As x + c, at two operations an element.
template <class T, class D, class L, class B>
basic_tensor<T, D, L, B> operator-(double c, const basic_tensor<T, D, L, B>& x) {
  return detail::plus_number(scale(x, -1), c);
}
/// x times 1 / c. Shape as x; linear: any placement, pending sums too. Throws when c is 0. Cost: an operation an
/// element.
template <class T, class D, class L, class B>
basic_tensor<T, D, L, B> operator/(const basic_tensor<T, D, L, B>& x, double c) {
  require(c != 0, "a tensor is divided by 0");
  if (!detail::is_finite(1 / c))
    return scale(scale(x, 1 / (c * 0x1p100)), 0x1p100);  // of a number below all normal ones
  return scale(x, 1 / c);
}
/// c / x, element by element. Shape and placement as x; a pending sum is refused. c is rounded to x's type first; where
/// that has no such number, x is taken in a wider one. Cost: an operation an element.
template <class T, class D, class L, class B>
basic_tensor<T, D, L, B> operator/(double c, const basic_tensor<T, D, L, B>& x) {
  if constexpr (!floating<T> || has_partial<L>)
    return reciprocal(x);  // says it
  else
    return detail::number_over(c, x);
}

}  // namespace weft
