// Choosing between tensors, element by element: maximum, minimum, comparisons that make masks, where. All are formulas
// (op/formula.hpp): broadcast by name.
// Invariant: a mask is a tensor of uint8, 0 or 1, and has no gradient.
#pragma once

#include <weft/op/formula.hpp>

namespace weft {
namespace detail {

template <bool Larger>
struct extreme_formula {
  static constexpr std::string_view name = Larger ? "maximum" : "minimum";
  template <class T>
  constexpr T forward(T a, T b) const {
    if (a != a || b != b) return a + b;  // NaN
    return (Larger ? a > b : a < b) ? a : b;
  }
  template <class T>
  constexpr std::array<T, 2> vjp(T dy, T a, T b) const {
    if (a == b) return {dy / 2, dy / 2};
    if (a != a || b != b) return {dy, dy};  // of a + b
    return (Larger ? a > b : a < b) ? std::array<T, 2>{dy, 0} : std::array<T, 2>{0, dy};
  }
};

enum class comparison : std::uint8_t { greater, less, greater_equal, less_equal, equal };
template <comparison C, class T>
constexpr bool compared(T a, T b) {
  if constexpr (C == comparison::greater)
    return a > b;
  else if constexpr (C == comparison::less)
    return a < b;
  else if constexpr (C == comparison::greater_equal)
    return a >= b;
  else if constexpr (C == comparison::less_equal)
    return a <= b;
  else
    return a == b;
}
template <comparison C>
struct comparison_formula {
  static constexpr std::string_view name = "compare";
  template <class T>
  constexpr bool forward(T a, T b) const {
    return compared<C>(a, b);
  }
};
template <comparison C>
struct number_comparison_formula {
  static constexpr std::string_view name = "compare";
  double number;
  template <class T>
  constexpr bool forward(T a) const {
    return compared<C>(static_cast<double>(a), number);
  }
};

struct where_formula {
  static constexpr std::string_view name = "where";
  static constexpr linearity linear = linearity::joint;
  template <class T>
  constexpr T forward(std::uint8_t mask, T a, T b) const {
    return mask ? a : b;
  }
  template <class T>
  constexpr std::array<T, 3> vjp(T dy, std::uint8_t mask) const {
    return {0, mask ? dy : 0, mask ? 0 : dy};
  }
};

/// Whether one of two is chosen, or they are compared: of one element type.
template <class A, class B>
constexpr bool compares() {
  constexpr bool one_type = std::same_as<typename A::element_type, typename B::element_type>;
  static_assert(one_type, "weft: what is compared, or chosen from, is of one element type: cast<T>(x) one of the two");
  return one_type;
}

}  // namespace detail

#define WEFT_DETAIL_NUMBER(function)                                                              \
  "weft: " function                                                                               \
  " chooses between tensors: write a number as full<tensor<float, dims<>>>(ctx, {}, number), of " \
  "x's element type, which is broadcast"

/// The larger of a and b, element by element; NaN where one is. Shape: as a + b. Placement: as a + b, and a pending sum
/// is refused. Gradient: to the larger; half to each where they are equal, all of it to each where one is NaN. Cost: an
/// operation an element.
template <any_tensor A, any_tensor B>
auto maximum(const A& a, const B& b) {
  if constexpr (detail::compares<A, B>()) return elementwise(detail::extreme_formula<true>{}, a, b);
}
/// Refused: a number.
template <class A, class B>
requires(std::is_arithmetic_v<A> != std::is_arithmetic_v<B> && any_tensor<A> != any_tensor<B>) void maximum(const A&,
                                                                                                            const B&) {
  static_assert(sizeof(A) == 0, WEFT_DETAIL_NUMBER("maximum(a, b)"));
}
template <class A, class B>
requires(std::is_arithmetic_v<A> != std::is_arithmetic_v<B> && any_tensor<A> != any_tensor<B>) void minimum(const A&,
                                                                                                            const B&) {
  static_assert(sizeof(A) == 0, WEFT_DETAIL_NUMBER("minimum(a, b)"));
}
/// The smaller of a and b; as maximum.
template <any_tensor A, any_tensor B>
auto minimum(const A& a, const B& b) {
  if constexpr (detail::compares<A, B>()) return elementwise(detail::extreme_formula<false>{}, a, b);
}

/// a > b and its kin: a mask of uint8, 1 where it is so. Shape and placement as maximum(a, b); no gradient. b may be a
/// number. (There is no ==, which C++ programs ask of whole values: equal(a, b).)
#define WEFT_DETAIL_COMPARISON(function, which)                                             \
  template <any_tensor A, any_tensor B>                                                     \
  auto function(const A& a, const B& b) {                                                   \
    if constexpr (detail::compares<A, B>())                                                 \
      return elementwise(detail::comparison_formula<detail::comparison::which>{}, a, b);    \
  }                                                                                         \
  template <class T, class D, class L, class B>                                             \
  auto function(const basic_tensor<T, D, L, B>& a, double b) {                              \
    return elementwise(detail::number_comparison_formula<detail::comparison::which>{b}, a); \
  }
WEFT_DETAIL_COMPARISON(operator>, greater)
WEFT_DETAIL_COMPARISON(operator<, less)
WEFT_DETAIL_COMPARISON(operator>=, greater_equal)
WEFT_DETAIL_COMPARISON(operator<=, less_equal)
WEFT_DETAIL_COMPARISON(equal, equal)
#undef WEFT_DETAIL_COMPARISON

/// a where the mask isn't 0, b elsewhere. Shape: the mask's dimensions, then those that a and b add. Placement: a and b
/// as in a + b, both pending or neither, since with its mask given it is linear; the mask joins as a factor, and may
/// not be pending. Gradient: of a where the mask isn't 0, of b elsewhere. Cost: an operation an element.
template <any_tensor M, any_tensor A, any_tensor B>
auto where(const M& mask, const A& a, const B& b) {
  constexpr bool is_mask = std::same_as<typename M::element_type, std::uint8_t>;
  static_assert(is_mask, "weft: where(mask, a, b) takes a mask of uint8, as a > b makes it");
  if constexpr (is_mask && detail::compares<A, B>()) return elementwise(detail::where_formula{}, mask, a, b);
}
/// Refused: a number.
template <any_tensor M, class A, class B>
requires(std::is_arithmetic_v<A> || std::is_arithmetic_v<B>) void where(const M&, const A&, const B&) {
  static_assert(sizeof(A) == 0, WEFT_DETAIL_NUMBER("where(mask, a, b)"));
}
#undef WEFT_DETAIL_NUMBER

}  // namespace weft
