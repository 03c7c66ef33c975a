// Operators of a user's own, element by element: a struct with the formula and its derivative becomes an operator on
// tensors in any placement. What an operator's author would otherwise have to remember is done here: the placement of
// the output and of every gradient, broadcasting by name, promotion, refusal of pending sums, padding, recording, what
// recomputation asks, gradients kept in another type.
// Invariant: a formula sees numbers, never a tensor; so nothing it does can depend on the sharding.
#pragma once

#include <string_view>
#include <tuple>

#include <weft/core/refusal.hpp>
#include <weft/op/formula_engine.hpp>
#include <weft/op/pair_rule.hpp>

namespace weft {
namespace detail {

inline void check_all_extents(const any_tensor auto&) {}
/// Extents of dimensions that two of the tensors have agree, or a sentence says which doesn't.
template <any_tensor X, any_tensor... Xs>
void check_all_extents(const X& x, const Xs&... others) {
  (check_shared_extents(x, others), ...);
  check_all_extents(others...);
}

// The layout of several operands' output, found one after the other; `ok` is false where a sentence was said.
template <pairing M, class Y, class... Xs>
struct joint_placement {
  static constexpr bool ok = true;
  using result = Y;
};
template <pairing M, class Y>
constexpr auto joint_placement_step() {
  return joint_placement<M, Y>{};
}
template <pairing M, class Y, class X, class... Xs>
constexpr auto joint_placement_step() {
  using rule = pair_rule<M, Y, X>;
  if constexpr (rule::ok)
    return joint_placement<M,
                           basic_tensor<typename Y::element_type, dims_joined<dims_of<Y>, dims_of<X>>,
                                        typename rule::layout, typename Y::backend>,
                           Xs...>{};
  else
    return rule{};
}
template <pairing M, class Y, class X, class... Xs>
struct joint_placement<M, Y, X, Xs...> : decltype(joint_placement_step<M, Y, X, Xs...>()) {};

template <class T>
using as_float = basic_tensor<float, dims_of<T>, layout_of<T>, typename T::backend>;

template <class... Xs>
struct operands {};
template <class... Lists>
struct join_operands;
template <class... Xs>
struct join_operands<operands<Xs...>> {
  using type = operands<Xs...>;
};
template <class... Xs, class... Ys, class... Rest>
struct join_operands<operands<Xs...>, operands<Ys...>, Rest...> : join_operands<operands<Xs..., Ys...>, Rest...> {};
template <bool Floating, class... Xs>
using operands_of =
    typename join_operands<operands<>, std::conditional_t<floating<typename Xs::element_type> == Floating,
                                                          operands<as_float<Xs>>, operands<>>...>::type;

/// Numbers meet as the formula is linear; masks and ids, which are given, then join them as factors do.
template <pairing M, class Numbers, class Given>
struct formula_placement;
template <pairing M, class X, class... Xs, class... Gs>
struct formula_placement<M, operands<X, Xs...>, operands<Gs...>> {
  using numbers = joint_placement<M, X, Xs...>;
  static auto join() {
    if constexpr (numbers::ok)
      return joint_placement<pairing::product, typename numbers::result, Gs...>{};
    else
      return numbers{};
  }
  using type = decltype(join());
};
template <pairing M, class G, class... Gs>
struct formula_placement<M, operands<>, operands<G, Gs...>> {
  using type = joint_placement<pairing::product, G, Gs...>;
};

/// How two operands meet, asked before the rest: what is refused is then said with little before it.
template <pairing M, class Numbers, class Given>
struct pair_of {};
template <pairing M, class X, class Y>
struct pair_of<M, operands<X, Y>, operands<>> : pair_rule<M, X, Y> {};
template <pairing M, class X, class G>
struct pair_of<M, operands<X>, operands<G>> : pair_rule<pairing::product, X, G> {};

template <class Backend>
concept runs_formulas = requires(typename Backend::queue& cores, const std::int64_t* extents,
                                 std::array<const std::int64_t*, 1> strides) {
  Backend::each_row(cores, 0, extents, strides, 0);
};

/// What is asked of a formula and of what it is given, a sentence each.
template <class F, class... Xs>
struct formula_of : formula_members<F> {
  using backend = typename std::tuple_element_t<0, std::tuple<Xs...>>::backend;
  using numbers = typename floating_among<typename Xs::element_type...>::type;
  static constexpr linearity linear = linearity_of<F>();

  static constexpr bool runs = runs_formulas<backend>;
  static_assert(runs, "weft: a formula is a loop that its tensors' backend lacks: each_row (docs/policies/backend.md)");
  static constexpr bool one_type =
      ((!floating<typename Xs::element_type> || std::same_as<typename Xs::element_type, numbers>)&&...);
  static_assert(one_type,
                "weft: the tensors that a formula is given have different floating types; cast<T>(x) the one "
                "to the other's");
  static constexpr bool callable = requires(const F& f) { f.forward(number_for<typename Xs::element_type>{}...); };
  static_assert(callable,
                "weft: a formula has forward(x...) const, which takes one number of each tensor and gives "
                "back one; bf16 and fp16 come as float");

  // A pending sum may enter where the formula is linear.
  template <class X, bool May>
  static constexpr bool settled = May || std::same_as<pending_in<layout_of<X>>, pending_sum_over<>>;
  template <std::size_t... I>
  static constexpr bool all_settled(std::index_sequence<I...>) {
    return (settled < Xs, floating<typename Xs::element_type> && linear != linearity::none &&
                              (linear != linearity::first || I == 0) > &&...);
  }
  static constexpr bool no_pending = all_settled(std::index_sequence_for<Xs...>{});
  static_assert(no_pending,
                "weft: a formula that is not linear is given a pending sum, and a function of a sum is not "
                "the sum of the functions: all_reduce<axis>(x) it first");
  static constexpr bool ok = formula_members<F>::said && runs && one_type && callable && no_pending;
  static constexpr pairing rule =
      linear == linearity::each || linear == linearity::first ? pairing::product : pairing::sum;
  static constexpr bool any_pending = (has_partial<layout_of<Xs>> || ...);
};

/// The second half, for a formula that can be called.
template <class F, class... Xs>
struct formula_output {
  using formula_type = formula_of<F, Xs...>;
  using number = decltype(std::declval<const F&>().forward(number_for<typename Xs::element_type>{}...));
  using element = typename element_from_result<number, typename formula_type::numbers>::type;
  static constexpr bool is_number = weft::element<element>;
  static_assert(is_number,
                "weft: forward(x...) of a formula gives back a number: T, double or float, std::int32_t or "
                "std::int64_t, std::uint8_t, or bool, which makes a mask of uint8");
  using given =
      std::conditional_t<std::is_void_v<typename formula_type::numbers>, number,
                         number_for<typename formula_type::numbers>>;  // what a floating operand's numbers are
  static constexpr bool has_gradient = std::same_as<element, typename formula_type::numbers>;
  static constexpr bool holds =
      forward_takes<F, number_for<typename Xs::element_type>...> && (!has_gradient || holds_numbers<number, given>());
  static_assert(holds,
                "weft: forward of a formula takes or gives back a type that holds fewer digits than the tensor's "
                "numbers: write it as a template <class T>, or take double and give back double");
  static constexpr bool no_idle_vjp =
      has_gradient || std::is_void_v<typename formula_type::numbers> || !is_number || !names_vjp<F>();
  static_assert(no_idle_vjp,
                "weft: forward of a formula makes an index or a mask, which has no gradient, and yet there is a vjp: "
                "leave out vjp, or let forward give back a T");

  static constexpr vjp_form form = [] {
    if constexpr (has_gradient)
      return vjp_form_of<F, given, number_for<typename Xs::element_type>...>(
          given_numbers<number_for<typename Xs::element_type>...>{});
    else
      return vjp_form::none;
  }();
  static constexpr bool says_gradient = !has_gradient || form != vjp_form::none || no_gradient<F>();
  static_assert(says_gradient,
                "weft: a formula has vjp(dy, x..., y) const, or vjp(dy, x...), or vjp(dy), or, of masks and ids alone "
                "as whole numbers, vjp(dy, mask...), which gives back the gradient of x, for several x a std::array "
                "of them; one without a gradient says static constexpr bool no_gradient = true");
  static constexpr auto gradients = [] {
    if constexpr (form == vjp_form::none)
      return std::pair{sizeof...(Xs), true};
    else
      return gradients_of<form, F, given, number_for<typename Xs::element_type>...>(
          given_numbers<number_for<typename Xs::element_type>...>{});
  }();
  static constexpr bool each_gradient = gradients.first == sizeof...(Xs);
  static_assert(each_gradient,
                "weft: vjp of a formula gives back as many gradients as forward takes operands: for several, a "
                "std::array with one for each");
  static_assert(gradients.second,
                "weft: vjp of a formula takes or gives back a type that holds fewer digits than the numbers that "
                "forward computes with: write it as a template <class T>, or take double and give back double");
  static constexpr bool ok = is_number && holds && no_idle_vjp && says_gradient && each_gradient && gradients.second;

  using placement =
      typename formula_placement<formula_type::rule, operands_of<true, Xs...>, operands_of<false, Xs...>>::type;
};

}  // namespace detail

/// An operator made of a formula, applied to one to three tensors that are broadcast by name. The formula is a struct:
///
///   struct huber {
///     static constexpr std::string_view name = "huber";
///     double width;                                            // numbers of its own
///     double forward(double x) const { ... }                   // of one element, or a template <class T>
///     double vjp(double dy, double x, double y) const { ... }  // dy * dforward/dx
///   };
///   const auto y = elementwise(huber{0.5}, x);
///
/// For several operands vjp gives back a std::array with a gradient for each; vjp(dy, x...), vjp(dy) and, of masks and
/// ids alone, vjp(dy, mask...) keep less for the backward. It may say `static constexpr linearity linear`, `static
/// constexpr double flops` (operations an element; 1) for checkpointing policies, and `no_gradient`. Numbers are of
/// type accumulate_t<T>, rounded once; forward may give back bool, which becomes a mask of uint8 without a gradient;
/// operands of integers (masks, ids) are given as they are and have no gradient. Shape: the first operand's dimensions,
/// then those that the next ones add. Placement, on each axis: a dimension that two have is sharded on both or on
/// neither; a pending sum is refused unless the formula is linear there, and then as in a - b (joint), a * b (each) or
/// a / b (first). Invariant operands are promoted; gradients are the duals. Throws weft::failure when shared extents
/// differ, and when a formula that says it is linear, given a pending sum, isn't. Padding is left out. Cost: a loop
/// over the output's elements. For a device's tensors forward and vjp are functions that a device can call: marked
/// constexpr or WEFT_ANYWHERE.
template <class F, any_tensor... Xs>
auto elementwise(const F& formula, const Xs&... x) {
  static_assert(sizeof...(Xs) >= 1 && sizeof...(Xs) <= detail::max_operands,
                "weft: elementwise(formula, x...) takes one to three tensors");
  if constexpr (sizeof...(Xs) >= 1 && sizeof...(Xs) <= detail::max_operands) {
    using formula_type = detail::formula_of<F, Xs...>;
    if constexpr (formula_type::ok) {
      static_assert(sizeof(detail::pair_of<formula_type::rule, detail::operands_of<true, Xs...>,
                                           detail::operands_of<false, Xs...>>) > 0);
      using output = detail::formula_output<F, Xs...>;
      if constexpr (output::ok && output::placement::ok) {
        using layout = layout_of<typename output::placement::result>;
        using result = basic_tensor<typename output::element, detail::dims_joined<dims_of<Xs>...>, layout,
                                    typename formula_type::backend>;
        using engine =
            detail::formula_operator<typename formula_type::backend, F, typename output::element,
                                     typename formula_type::numbers, output::form, typename Xs::element_type...>;
        static constexpr auto map = detail::broadcast_of<dims_of<Xs>...>();
        detail::require_one_context(F::name, {&untyped(x)...});
        detail::check_all_extents(x...);
        if constexpr (formula_type::any_pending)
          detail::require_linear<F, formula_type::linear, typename Xs::element_type...>(formula);
        const shape parts[] = {detail::valid_part(x)...};
        shape valid;
        for (int d = 0; d < map.ndim; ++d) {
          const int operand = detail::operand_with(map, d);
          valid.push_back(parts[operand][map.at[operand][d]]);
        }
        return result(engine::forward(formula, map, valid, {detail::promoted<layout>(x, F::name.data())...}));
      }
    }
  }
}

/// Refused: what is no tensor.
template <class F, class... Xs>
requires(!(any_tensor<Xs> && ...)) void elementwise(const F&, const Xs&...) {
  static_assert(!any_tensor<F>, "weft: elementwise(formula, x...) takes the formula first, and then tensors");
  static_assert(any_tensor<F>,
                "weft: elementwise(formula, x...) takes tensors: a number is a member of the formula, or "
                "full<tensor<float, dims<>>>(ctx, {}, number), which is broadcast");
}

}  // namespace weft
