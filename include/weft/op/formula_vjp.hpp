// What a formula's vjp takes and how many gradients it gives back.
// Invariant: everything is told from types; nothing here calls a formula.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/op/formula_says.hpp>

namespace weft::detail {

/// Numbers of the operands from I on, of types Ns, that are no floating ones: masks and ids.
template <class Found, std::size_t I, class... Ns>
struct given_among {
  using type = Found;
};
template <std::size_t... Found, std::size_t I, class N, class... Ns>
struct given_among<std::index_sequence<Found...>, I, N, Ns...>
    : given_among<std::conditional_t<std::is_floating_point_v<N>, std::index_sequence<Found...>,
                                     std::index_sequence<Found..., I>>,
                  I + 1, Ns...> {};
template <class... Ns>
using given_numbers = typename given_among<std::index_sequence<>, 0, Ns...>::type;

/// Whether a vjp whose address is of type M takes whole numbers beside dy, as masks and ids are: a floating one is an
/// operand of a vjp that has forgotten a mask. M is void for a template, which takes them as they are.
template <class M>
inline constexpr bool takes_given = true;
template <class R, class C, bool E, class N, class... Ps>
inline constexpr bool takes_given<R (C::*)(N, Ps...) const noexcept(E)> =
    (std::is_integral_v<std::remove_cvref_t<Ps>> && ...);
template <class R, bool E, class N, class... Ps>
inline constexpr bool takes_given<R (*)(N, Ps...) noexcept(E)> = (std::is_integral_v<std::remove_cvref_t<Ps>> && ...);

/// What a vjp takes: (dy, x..., y), (dy, x...), (dy, those of x that are masks or ids), (dy), or there is none.
enum class vjp_form : std::uint8_t { none, of_all, of_inputs, of_given, of_gradient };
template <class F, class N, class... Ns, std::size_t... Given>
constexpr vjp_form vjp_form_of(std::index_sequence<Given...>) {
  if constexpr (requires(const F& f, N dy, Ns... x) { f.vjp(dy, x..., dy); })
    return vjp_form::of_all;
  else if constexpr (requires(const F& f, N dy, Ns... x) { f.vjp(dy, x...); })
    return vjp_form::of_inputs;
  else if constexpr (takes_given<typename address_of_vjp<F>::type> &&
                     requires(const F& f, N dy, std::tuple<Ns...> x) { f.vjp(dy, std::get<Given>(x)...); })
    return vjp_form::of_given;
  else if constexpr (requires(const F& f, N dy) { f.vjp(dy); })
    return vjp_form::of_gradient;
  else
    return vjp_form::none;
}

/// The gradients that a vjp gives back: how many, and whether each is a number that holds an N.
template <class G, class N>
struct gradients_given {
  static constexpr std::size_t count = 1;
  static constexpr bool right = std::is_floating_point_v<G> && holds_numbers<G, N>();
};
template <class G, std::size_t Count, class N>
struct gradients_given<std::array<G, Count>, N> {
  static constexpr std::size_t count = Count;
  static constexpr bool right = gradients_given<G, N>::right;
};
/// Those of a vjp of that form, which is given numbers of type N and takes them without losing digits, or isn't right.
template <vjp_form Form, class F, class N, class... Ns, std::size_t... Given>
constexpr auto gradients_of(std::index_sequence<Given...>) {
  const auto given = []<class G>(std::type_identity<G>, bool takes) {
    return std::pair{gradients_given<G, N>::count, takes && gradients_given<G, N>::right};
  };
  if constexpr (Form == vjp_form::of_all)
    return given(std::type_identity<std::remove_cvref_t<decltype(std::declval<const F&>().vjp(N(), Ns()..., N()))>>{},
                 vjp_takes<F, N, Ns..., N>);
  else if constexpr (Form == vjp_form::of_inputs)
    return given(std::type_identity<std::remove_cvref_t<decltype(std::declval<const F&>().vjp(N(), Ns()...))>>{},
                 vjp_takes<F, N, Ns...>);
  else if constexpr (Form == vjp_form::of_given)
    return given(std::type_identity<std::remove_cvref_t<decltype(std::declval<const F&>().vjp(
                     N(), std::tuple_element_t<Given, std::tuple<Ns...>>()...))>>{},
                 vjp_takes<F, N, std::tuple_element_t<Given, std::tuple<Ns...>>...>);
  else
    return given(std::type_identity<std::remove_cvref_t<decltype(std::declval<const F&>().vjp(N()))>>{},
                 vjp_takes<F, N>);
}

}  // namespace weft::detail
