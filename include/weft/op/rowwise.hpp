// Operators of a user's own along one dimension (a norm, a softmax, a maximum): a struct with a formula of one row and
// its gradient becomes an operator on tensors. Placement, recording, what recomputation asks and refusals are done
// here. Invariant: a formula sees one whole row, never a tensor; so nothing it does can depend on the sharding.
#pragma once

#include <weft/core/refusal.hpp>
#include <weft/op/row_engine.hpp>
#include <weft/op/tag_checks.hpp>

namespace weft {
namespace detail {

template <class... As>
sharded_over<As...> as_sharded(tag_list<As...>);
/// The axes over which X's dimension D is sharded: `sharded_over<tp>`, or without an argument.
template <class X, class D>
using dimension_sharded_in = decltype(as_sharded(shard_axes<layout_of<X>, D>{}));

template <class Backend>
concept runs_row_formulas = requires(typename Backend::queue& cores, const std::int64_t* extents,
                                     std::array<const std::int64_t*, 1> strides,
                                     void (*row)(const std::array<std::int64_t, 1>&)) {
  Backend::each_line(cores, 0, extents, strides, 1, row);
};

/// What is asked of a formula and of what it is given, a sentence each.
template <class F, class D, class X>
struct row_formula_of : formula_members<F> {
  using number = number_for<typename X::element_type>;
  using input = std::span<const number>;

  static constexpr bool has_dim = dims_of<X>::template has<D>;
  static_assert(none<lacked<dims_of<X>, D>>,
                "weft: a function along a dimension is given a tensor that lacks it: name one that the tensor has, as "
                "hidden in rowwise<hidden>(f, x) and max<hidden>(x)");
  static constexpr bool finished = !has_partial<layout_of<X>>;
  static_assert(none<pending_in<layout_of<X>>>,
                "weft: a function of a row is given pending sums, and a function of a sum is not the sum of the "
                "functions: all_reduce<axis>(x) it first");
  static constexpr bool whole = shard_axes<layout_of<X>, D>::size == 0;
  static_assert(none<dimension_sharded_in<X, D>>,
                "weft: a function of a row needs it whole on every rank, and its dimension is sharded: "
                "all_gather<axis>(x) it first, or all_to_all<dim, axis>(x), which shards another dimension");
  static constexpr bool runs = runs_row_formulas<typename X::backend>;
  static_assert(runs,
                "weft: a formula of a row is a loop that its tensor's backend lacks: each_line "
                "(docs/policies/backend.md)");
  static constexpr bool reduces = requires(const F& f, input x) { f.forward(x); };
  static constexpr bool maps = requires(const F& f, input x, std::span<number> y) { f.forward(x, y); };
  static constexpr bool callable = reduces != maps;
  static_assert(callable,
                "weft: a formula of a row has one forward, as a template <class T>: T forward(std::span<const T> x) "
                "const, which makes a number of a row, or void forward(std::span<const T> x, std::span<T> y) const, "
                "which makes a row; bf16 and fp16 come as float");
  static constexpr bool ok = has_dim && finished && whole && runs && formula_members<F>::said && callable;
};

/// The second half, for a formula that can be called.
template <class F, class D, class X>
struct row_formula_output {
  using formula = row_formula_of<F, D, X>;
  using number = typename formula::number;
  using input = typename formula::input;
  using in = typename X::element_type;
  static constexpr bool reduces = formula::reduces;

  static auto result([[maybe_unused]] const F& f) {
    if constexpr (reduces)
      return f.forward(input{});
    else
      return number{};
  }
  using element = typename element_from_result<decltype(result(std::declval<const F&>())),
                                               std::conditional_t<floating<in>, in, void>>::type;
  using type = std::conditional_t<reduces, element, in>;
  static constexpr bool is_number = weft::element<type>;
  static_assert(is_number,
                "weft: forward(x) of a formula of a row gives back a number: T, double or float, std::int32_t or "
                "std::int64_t, std::uint8_t, or bool, which makes a mask of uint8");
  static constexpr bool floats = floating<in> && std::same_as<type, in>;
  static constexpr bool holds = !floats || holds_numbers<decltype(result(std::declval<const F&>())), number>();
  static_assert(holds,
                "weft: forward of a formula of a row gives back a type that holds fewer digits than the tensor's "
                "numbers: write it as a template <class T>, which gives back a T");
  static constexpr bool no_idle_vjp = floats || !floating<in> || !is_number || !names_vjp<F>();
  static_assert(no_idle_vjp,
                "weft: forward of a formula makes an index or a mask, which has no gradient, and yet there is a vjp: "
                "leave out vjp, or let forward give back a T");
  using given = std::conditional_t<reduces, number, input>;  // dy and y
  static constexpr bool has_vjp = floats && requires(const F& f, given y, input x, std::span<number> dx) {
    call_row_vjp(f, y, x, y, dx);
  };
  static constexpr bool takes_unkept = !has_vjp && floats && !(keeps_input<F>() && keeps_output<F>()) &&
                                       requires(const F& f, given y, input x, std::span<number> dx) {
    f.vjp(y, x, y, dx);
  };
  static_assert(!takes_unkept,
                "weft: vjp of a formula of a row takes what the formula says that it doesn't need: with keeps_input = "
                "false leave out its x, with keeps_output = false its y");
  static constexpr bool says_gradient = !floats || has_vjp || takes_unkept || no_gradient<F>();
  static_assert(says_gradient,
                "weft: a formula of a row has vjp(dy, x, y, dx) const, which writes the gradient of the row x into "
                "dx; dy and y are rows, or numbers where forward makes a number of a row; one without a gradient says "
                "static constexpr bool no_gradient = true");
  static constexpr bool vjp_holds = !has_vjp || (vjp_takes<F, number, number, number, number> &&
                                                 vjp_takes<F, number, number, number> && vjp_takes<F, number, number>);
  static_assert(vjp_holds,
                "weft: vjp of a formula of a row takes dy or y as a type that holds fewer digits than forward's "
                "numbers: write it as a template <class T>, which takes a T");
  static constexpr bool ok = is_number && holds && no_idle_vjp && !takes_unkept && says_gradient && vjp_holds;
  using dims = std::conditional_t<reduces, dims_without<dims_of<X>, D>, dims_of<X>>;
};

}  // namespace detail

/// An operator made of a formula of one row, applied along dimension D. The formula is a struct:
///
///   struct l2_normalize {
///     static constexpr std::string_view name = "l2_normalize";
///     template <class T>
///     void forward(std::span<const T> x, std::span<T> y) const { ... }
///     template <class T>
///     void vjp(std::span<const T> dy, std::span<const T> x, std::span<const T> y, std::span<T> dx) const { ... }
///   };
///   const auto y = rowwise<hidden>(l2_normalize{}, x);
///
/// One that makes a number of a row has T forward(std::span<const T> x) and vjp(T dy, x, T y, dx). T is
/// accumulate_t of x's type (integers are given as they are); y and dx are 0 at first. Where it says `static constexpr
/// bool keeps_input = false`, its vjp takes no x, with `keeps_output = false` no y, and the backward keeps none:
/// vjp(dy, y, dx), vjp(dy, x, dx). It may say `static constexpr double flops` (operations an element of x; 1) for
/// checkpointing policies; and `no_gradient`. A number of another type than x's (an index: std::int32_t; bool: a mask
/// of uint8) has no gradient. Shape: as x, or x without D. Placement: as x, which may not be partial, nor sharded along
/// D. Padding is left out. Cost: a loop over x. For a device's tensors forward and vjp are functions
/// that a device can call, marked constexpr or WEFT_ANYWHERE; a row is a thread's there.
template <dimension D, class F, any_tensor X>
auto rowwise(const F& formula, const X& x) {
  if constexpr (detail::row_formula_of<F, D, X>::ok) {
    using output = detail::row_formula_output<F, D, X>;
    if constexpr (output::ok) {
      using result = basic_tensor<typename output::type, typename output::dims, layout_of<X>, typename X::backend>;
      using engine = detail::row_operator<typename X::backend, F, typename X::element_type, typename output::type,
                                          output::reduces, output::has_vjp>;
      detail::require_one_context(F::name, {&untyped(x)});
      return result(engine::forward(formula, untyped(x), dims_of<X>::template index<D>, detail::valid_part(x)));
    }
  }
}
/// Refused: no dimension, an axis in its place, and anything but one tensor.
template <class D, class F, class... Xs>
requires(!dimension<D> || sizeof...(Xs) != 1 || !(any_tensor<Xs> && ...)) void rowwise(const F&, const Xs&...) {
  static_assert(detail::none<detail::unless<not_a_dimension, dimension<D>, D>>,
                "weft: rowwise<dim>(formula, x) names a dimension of the tensor, as hidden, and no other tag");
  static_assert(!dimension<D>,
                "weft: rowwise<dim>(formula, x) takes the formula and then one tensor: what else there is enters "
                "afterwards, rowwise<hidden>(formula, x) * w, or as the formula's own numbers");
}
template <class F, class... Xs>
requires(!dimension<F> && !mesh_axis<F>) void rowwise(const F&, const Xs&...) {
  static_assert(sizeof(F) == 0, "weft: rowwise names the dimension along which rows lie: rowwise<hidden>(formula, x)");
}

}  // namespace weft
