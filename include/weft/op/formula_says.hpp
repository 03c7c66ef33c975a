// What a formula says of itself beside its functions (in which operands it is linear, that it has no gradient), and
// whether the types of its functions hold the numbers that they are given. op/formula.hpp and op/rowwise.hpp ask.
// Invariant: everything is told from types; nothing here calls a formula.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <string_view>

#include <weft/core/dtype.hpp>
#include <weft/core/tags.hpp>

namespace weft {

/// In which of its floating operands a formula is linear, so which may be pending sums.
/// none: in no one; joint: in all of them together, as a - b; each: in each while the others stay, as a * b; first: in
/// the first while the others stay, as a / b.
enum class linearity : std::uint8_t { none, joint, each, first };

namespace detail {

/// What a formula computes with in place of elements of type T.
template <class T>
struct number_of {
  using type = T;
};
template <floating T>
struct number_of<T> {
  using type = accumulate_t<T>;
};
template <class T>
using number_for = typename number_of<T>::type;

template <class F>
inline constexpr bool right_linear = true;
template <class F>
requires requires { F::linear; }
inline constexpr bool right_linear<F> = requires { typename std::integral_constant<linearity, F::linear>; };
template <class F>
constexpr linearity linearity_of() {
  if constexpr (right_linear<F> && requires { F::linear; })
    return F::linear;
  else
    return linearity::none;
}

template <class F>
inline constexpr bool right_flops = true;
template <class F>
requires requires { F::flops; }
inline constexpr bool right_flops<F> = requires {
  requires std::bool_constant<(static_cast<double>(F::flops) >= 0)>::value;
};
template <class F>
constexpr double flops_of() {
  if constexpr (right_flops<F> && requires { F::flops; })
    return static_cast<double>(F::flops);
  else
    return 1;
}

// A yes or no, whose value counts: `right_no_gradient<F>`, and `no_gradient<F>()`, which is `Unsaid` where it isn't
// said.
#define WEFT_DETAIL_FLAG(member, unsaid)                        \
  template <class F>                                            \
  inline constexpr bool right_##member = true;                  \
  template <class F>                                            \
  requires requires { F::member; }                              \
  inline constexpr bool right_##member<F> = requires {          \
    requires std::same_as<decltype(F::member), const bool>;     \
    typename std::bool_constant<F::member>;                     \
  };                                                            \
  template <class F>                                            \
  constexpr bool member() {                                     \
    if constexpr (right_##member<F> && requires { F::member; }) \
      return F::member;                                         \
    else                                                        \
      return unsaid;                                            \
  }
WEFT_DETAIL_FLAG(no_gradient, false)
WEFT_DETAIL_FLAG(keeps_input, true)
WEFT_DETAIL_FLAG(keeps_output, true)
#undef WEFT_DETAIL_FLAG

// Whether F has a member called vjp, a template too: beside another of that name it can't be named.
struct another_vjp {
  int vjp;
};
template <class F>
struct beside_another : F, another_vjp {};
template <class F>
constexpr bool names_vjp() {
  if constexpr (std::is_class_v<F> && !std::is_final_v<F>) return !requires {
      &beside_another<F>::vjp;
    };
  else
    return requires { &F::vjp; };
}

/// Whether a P holds every N. A mask's numbers may be taken as bool; types that are no numbers aren't judged.
template <class P, class N>
constexpr bool holds_numbers() {
  using std::is_floating_point_v, std::is_signed_v, std::numeric_limits;
  if constexpr (std::same_as<P, N> || !std::is_arithmetic_v<P> || !std::is_arithmetic_v<N>)
    return true;
  else if constexpr (std::same_as<P, bool> && std::same_as<N, std::uint8_t>)
    return true;
  else
    return numeric_limits<P>::digits >= numeric_limits<N>::digits &&
           (is_floating_point_v<P> || !is_floating_point_v<N>)&&(is_signed_v<P> || !is_signed_v<N>);
}
/// Whether a function whose address is of type M takes numbers of types Ns without losing digits. M is void for a
/// template, which takes their types as they are.
template <class M, class... Ns>
struct takes_numbers {
  static constexpr bool ok = true;
};
template <class List, class... Ns>
struct each_holds {
  static constexpr bool ok = true;
};
template <class... Ps, class... Ns>
requires(sizeof...(Ps) == sizeof...(Ns)) struct each_holds<tag_list<Ps...>, Ns...> {
  static constexpr bool ok = (holds_numbers<std::remove_cvref_t<Ps>, Ns>() && ...);
};
template <class R, class C, bool E, class... Ps, class... Ns>
struct takes_numbers<R (C::*)(Ps...) const noexcept(E), Ns...> : each_holds<tag_list<Ps...>, Ns...> {};
template <class R, bool E, class... Ps, class... Ns>
struct takes_numbers<R (*)(Ps...) noexcept(E), Ns...> : each_holds<tag_list<Ps...>, Ns...> {};

#define WEFT_DETAIL_ADDRESS(function)    \
  template <class F>                     \
  struct address_of_##function {         \
    using type = void;                   \
  };                                     \
  template <class F>                     \
  requires requires { &F::function; }    \
  struct address_of_##function<F> {      \
    using type = decltype(&F::function); \
  };
WEFT_DETAIL_ADDRESS(forward)
WEFT_DETAIL_ADDRESS(vjp)
#undef WEFT_DETAIL_ADDRESS
template <class F, class... Ns>
inline constexpr bool forward_takes = takes_numbers<typename address_of_forward<F>::type, Ns...>::ok;
template <class F, class... Ns>
inline constexpr bool vjp_takes = takes_numbers<typename address_of_vjp<F>::type, Ns...>::ok;

// Stand for a member of a struct that is made of a list in braces: any number, and what points elsewhere.
struct some_number {
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) operator T() const;
};
struct some_pointer {
  template <class T>
  requires(std::is_pointer_v<T>) operator T() const;
  template <class T>
  operator std::span<T>() const;
  operator std::string_view() const;
};
/// Whether the first member of F that is no number points elsewhere; false where F isn't made of a list in braces.
template <class F, class... Numbers>
constexpr bool points_elsewhere() {
  if constexpr (!std::is_aggregate_v<F> || std::is_empty_v<F> || sizeof...(Numbers) > 24)
    return false;
  else if constexpr (requires { F{Numbers{}..., some_pointer{}}; })
    return true;
  else if constexpr (requires { F{Numbers{}..., some_number{}}; })
    return points_elsewhere<F, Numbers..., some_number>();
  else
    return false;
}

/// What every formula says, a sentence each.
template <class F>
struct formula_members {
  static constexpr bool has_name = requires { std::string_view(F::name).size(); };
  static_assert(has_name,
                "weft: a formula has a name, which errors and traces say: static constexpr std::string_view "
                "name = \"huber\";");
  static constexpr bool flags = right_no_gradient<F> && right_keeps_input<F> && right_keeps_output<F>;
  static_assert(flags,
                "weft: no_gradient, keeps_input and keeps_output of a formula are bool, and known when compiling: "
                "static constexpr bool no_gradient = true");
  static constexpr bool fits = std::is_trivially_copyable_v<F> && std::is_copy_assignable_v<F> && sizeof(F) <= 200;
  static_assert(fits,
                "weft: a formula is copied into the tape byte by byte: let its members be numbers only, 200 bytes at "
                "most, no const ones and no references, and give it tensors as operands");
  static constexpr bool points = points_elsewhere<F>();
  static_assert(!points,
                "weft: a formula is copied into the tape byte by byte, and a backward runs later: let its members be "
                "numbers, arrays of them too, and no pointers, spans or texts; give it tensors as operands");
  static_assert(right_linear<F>,
                "weft: linear of a formula says in which operands it is linear: static constexpr linearity linear = "
                "linearity::joint, as a - b, linearity::each, as a * b, or linearity::first, as a / b");
  static_assert(right_flops<F>,
                "weft: flops of a formula are its operations an element, a number that isn't negative: static "
                "constexpr double flops = 5");
  static constexpr bool one_gradient = !(no_gradient<F>() && names_vjp<F>());
  static_assert(one_gradient,
                "weft: a formula that says no_gradient = true has a vjp, which would never run: leave out the one or "
                "the other");
  static constexpr bool said =
      has_name && fits && !points && flags && right_linear<F> && right_flops<F> && one_gradient;
};

}  // namespace detail
}  // namespace weft
