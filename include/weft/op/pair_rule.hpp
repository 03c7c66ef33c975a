// What every operator of two tensors asks before it computes: how its output is placed, and whether the two may meet at
// all. The algebra of core/rule.hpp answers for one axis at a time; here it is asked for every axis that either tensor
// names, its answers are put together to a layout, and each refusal becomes a sentence. An operator has three steps:
//
//   using rule = pair_rule<pairing::product, A, B>;            // 1. may they meet? Says a sentence where not.
//   if constexpr (rule::ok) {                                  //    (so that nothing else is said after it)
//     check_shared_extents(a, b);                              // 2. what only a run knows: sizes agree
//     engine::forward(promoted<typename rule::layout>(a), ...) // 3. values, without types from here on
//   }
//
// Promotion is why step 3 isn't a.held(): where ranks begin to do different things with a value that is the same on all
// of them, its gradient is a sum over them, and that is recorded here. Operators of three tensors (attention) or with
// rules of their own (embedding, cross_entropy) write step 1 themselves and take the rest.
// Invariant: an input is only ever promoted `invariant -> replicate`; the rest is refused. Each rule is held to its own
// gradient: what a gradient's placement would come out as, by the same rules, is the dual of its input's.
#pragma once

#include <weft/core/refusal.hpp>
#include <weft/core/rule.hpp>
#include <weft/op/convert.hpp>
#include <weft/op/placed.hpp>

namespace weft::detail {

enum class pairing : std::uint8_t { product, sum };

// One sentence for each reason; the compiler prints the axis as a template argument beside it. A rule has it as a base,
// so that the sentence is said when the rule is asked, and nothing else fails with it.
template <class Axis, verdict Why>
struct on_this_axis {
  template <template <class...> class What, verdict Wrong>
  using refused = std::conditional_t<Why == Wrong, What<Axis>, What<>>;
  static_assert(none<refused<sharded_over, verdict::contracted_one_side>>,
                "weft: the contracted dimension is sharded on one side only: shard the other side the same way with "
                "split<dim, axis>, "
                "or all_gather<axis> this one");
  static_assert(none<refused<sharded_over, verdict::slice_meets_whole>>,
                "weft: a slice meets a whole value in a dimension that both have: split<dim, axis> the whole one or "
                "all_gather<axis> "
                "the slice");
  static_assert(none<refused<sharded_over, verdict::two_dims>>,
                "weft: the two sides are sharded over one axis along different dimensions: all_gather<axis> one of "
                "them or convert "
                "it with all_to_all<dim, axis>");
  static_assert(
      none<refused<pending_sum_over, verdict::partial_meets_slice>>,
      "weft: a pending sum meets a slice: finish it first with all_reduce<axis> or reduce_scatter<dim, axis>");
  static_assert(
      none<refused<pending_sum_over, verdict::partial_twice>>,
      "weft: a product of two pending sums is not the sum of the products: all_reduce<axis> one of them first");
  static_assert(none<refused<pending_sum_over, verdict::partial_plus_whole>>,
                "weft: a pending sum is added to a whole value, which would count once per rank: all_reduce<axis> the "
                "pending one first, or convert<partial<axis>>(x) the whole one, which is then counted once");
};

template <pairing M, class X, class Y, class A, class Contracted>
constexpr rule_result pair_on_axis() {
  constexpr on_axis x = state_on<layout_of<X>, A>, y = state_on<layout_of<Y>, A>;
  constexpr auto has = []<class... Es>(dims<Es...>, [[maybe_unused]] dim_id id) {
    return (false || ... || (id_of<tag_of<Es>> == id));
  };
  constexpr auto sums = []<class... Ks>(tag_list<Ks...>, [[maybe_unused]] dim_id id) {
    return (false || ... || (id_of<Ks> == id));
  };
  constexpr bool x_cut = x.kind == holds::shard, y_cut = y.kind == holds::shard;
  constexpr operand a{x, x_cut && has(dims_of<Y>{}, x.dim), x_cut && sums(Contracted{}, x.dim)};
  constexpr operand b{y, y_cut && has(dims_of<X>{}, y.dim), y_cut && sums(Contracted{}, y.dim)};
  return M == pairing::product ? product_rule(a, b) : sum_rule(a, b);
}

// The gradient of the first side follows by the same rules: it is the output's gradient times the second side, summed
// over what the first side lacks. On axis A it has to be the dual of what the operator saw of the first side.
template <pairing M, class X, class Y, class A, class Contracted>
constexpr bool gradient_is_dual() {
  constexpr rule_result out = pair_on_axis<M, X, Y, A, Contracted>();
  if (out.why != verdict::ok) return true;  // refused elsewhere
  constexpr auto seen = [](on_axis in, on_axis result) {
    return promotes(in, result) ? on_axis{holds::replicate} : in;
  };
  constexpr on_axis x = seen(state_on<layout_of<X>, A>, out.at), y = seen(state_on<layout_of<Y>, A>, out.at);
  constexpr on_axis back{dual(out.at.kind), out.at.dim};
  constexpr auto has = []<class... Es>(dims<Es...>, [[maybe_unused]] dim_id id) {
    return (false || ... || (id_of<tag_of<Es>> == id));
  };
  constexpr auto in_out = [has](dim_id id) {
    return (has(dims_of<X>{}, id) || has(dims_of<Y>{}, id)) &&
           !([]<class... Ks>(tag_list<Ks...>, [[maybe_unused]] dim_id k) { return (false || ... || (id_of<Ks> == k)); }(
                 Contracted{}, id));
  };
  constexpr on_axis wanted{dual(x.kind), x.dim};
  if (M == pairing::sum) return reduce_rule(back, !has(dims_of<X>{}, back.dim)) == wanted;
  const bool back_cut = back.kind == holds::shard, y_cut = y.kind == holds::shard;
  const operand g{back, back_cut && has(dims_of<Y>{}, back.dim), back_cut && !has(dims_of<X>{}, back.dim)};
  const operand o{y, y_cut && in_out(y.dim), y_cut && !has(dims_of<X>{}, y.dim)};
  return product_rule(g, o) == rule_result{wanted};
}

// The placement on axis A that an output stands for; a shard is taken from whichever layout has it.
template <class L, class A>
struct shard_on {
  using type = void;
};
template <class... Ps, class A>
struct shard_on<layout<Ps...>, A> {
  template <class P>
  struct one {
    using type = tag_list<>;
  };
  template <class D, class... As>
  struct one<shard<D, As...>> {
    using type = std::conditional_t<(std::same_as<As, A> || ...), tag_list<shard<D, A>>, tag_list<>>;
  };
  template <class T>
  struct first {
    using type = void;
  };
  template <class P>
  struct first<tag_list<P>> {
    using type = P;
  };
  using type = typename first<typename join_lists<typename one<Ps>::type...>::type>::type;
};

template <holds Kind, class A, class LX, class LY>
constexpr auto placement_of() {
  if constexpr (Kind == holds::invariant)
    return invariant<A>{};
  else if constexpr (Kind == holds::replicate)
    return replicate<A>{};
  else if constexpr (Kind == holds::partial)
    return partial<A>{};
  else if constexpr (!std::same_as<typename shard_on<LX, A>::type, void>)
    return typename shard_on<LX, A>::type{};
  else
    return typename shard_on<LY, A>::type{};
}

template <pairing M, class X, class Y, class Contracted, class Axes>
struct pair_layout;
template <pairing M, class X, class Y, class Contracted, class... As>
struct pair_layout<M, X, Y, Contracted, tag_list<As...>>
    : on_this_axis<As, pair_on_axis<M, X, Y, As, Contracted>().why>... {
  static constexpr bool ok = ((pair_on_axis<M, X, Y, As, Contracted>().why == verdict::ok) && ...);
  static_assert((gradient_is_dual<M, X, Y, As, Contracted>() && ...) &&
                    (gradient_is_dual<M, Y, X, As, Contracted>() && ...),
                "weft: a gradient's placement is not the dual of its input's: the placement rule is wrong");
  using layout =
      typename insert_all<weft::layout<>, decltype(placement_of<pair_on_axis<M, X, Y, As, Contracted>().at.kind, As,
                                                                layout_of<X>, layout_of<Y>>())...>::type;
};

// A dimension sharded over several axes has to be cut in the same order on both sides. Of other axes the rule of each
// axis says more.
template <class X, class Y>
inline constexpr bool same_axis_order = true;
template <class... As, class... Bs>
requires(sizeof...(As) == sizeof...(Bs) &&
         (contains<tag_list<Bs...>, As> &&
          ...)) inline constexpr bool same_axis_order<tag_list<As...>, tag_list<Bs...>> =
    std::same_as<tag_list<As...>, tag_list<Bs...>>;
template <class Dims, class LX, class LY>
inline constexpr bool same_cuts = true;
template <class... Es, class LX, class LY>
inline constexpr bool same_cuts<dims<Es...>, LX, LY> =
    (same_axis_order<shard_axes<LX, tag_of<Es>>, shard_axes<LY, tag_of<Es>>> && ...);

/// Layout of the output of X and Y; refuses, in one sentence, what has no meaning.
template <pairing M, class X, class Y, class Contracted = tag_list<>>
struct pair_rule {
  static_assert(ask_backends<X, Y>());
  static constexpr bool one_type = std::same_as<typename X::element_type, typename Y::element_type>;
  static_assert(one_type, "weft: the two tensors have different element types; cast<T>(x) one of them");
  static_assert(same_cuts<dims_of<X>, layout_of<X>, layout_of<Y>>,
                "weft: a dimension is sharded over the same axes in another order on the two sides: order them alike, "
                "outermost first");
  using result = pair_layout<M, X, Y, Contracted, axes_of_all<layout_of<X>, layout_of<Y>>>;
  static constexpr bool ok = result::ok && none<backends_in<X, Y>>;
  using layout = typename result::layout;
};

/// The axes on which x is promoted `invariant -> replicate`: where the output varies and x does not.
template <class Out, any_tensor X>
inline constexpr axis_set promoted_axes = []<class... As>(tag_list<As...>) {
  axis_set out;
  ((promotes(state_on<layout_of<X>, As>, state_on<Out, As>) ? out.add(id_of<As>) : void()), ...);
  return out;
}(axes_of<Out>{});
template <class Backend>
[[gnu::noinline]] value promoted_over(const axis_set& axes, value x, const asked_for& by, conversion_vjp vjp) {
  for (const axis_id axis : axes) x = conversion<Backend>::promote(x, axis, by, vjp);
  return x;
}
/// x, promoted on all of them. operation: who takes x, and where in the program, if that is known.
template <class Out, any_tensor X>
value promoted(const X& x, const char* operation = "an operator", call_site at = {}) {
  compare_operand<Out>(x, operation, at);
  if constexpr (promoted_axes<Out, X>.empty())
    return untyped(x);
  else
    return promoted_over<typename X::backend>(promoted_axes<Out, X>, untyped(x),
                                              {operation, dims_text<dims_of<X>>(), at},
                                              conversion<typename X::backend>::template vjp<typename X::element_type>);
}

/// A dimension that two tensors have: where it is in each.
struct shared_dimension {
  std::string_view name;
  int in_x, in_y;
};
WEFT_LINKED void check_shared_extents(const value& x, const value& y, std::span<const shared_dimension> shared) {
  x.ctx.get(), y.ctx.get();
  for (const shared_dimension& d : shared) {
    const std::int64_t nx = x.whole[d.in_x], ny = y.whole[d.in_y];
    require(nx == ny, "dimension ", d.name, " has ", nx, " elements on one side and ", ny, " on the other");
  }
}
/// Those of X and Y but D: throws where their static extents differ.
template <class X, class Y, class D = void>
constexpr auto shared_dimensions() {
  constexpr std::size_t count = []<class... Es>(dims<Es...>) {
    return (std::size_t{0} + ... + (dims_of<Y>::template has<tag_of<Es>> && !std::same_as<tag_of<Es>, D>));
  }(dims_of<X>{});
  std::array<shared_dimension, count> out{};
  [[maybe_unused]] std::size_t at = 0;
  [[maybe_unused]] const auto add = [&]<class E>() {
    if constexpr (dims_of<Y>::template has<E> && !std::same_as<E, D>) {
      constexpr int in_x = dims_of<X>::template index<E>, in_y = dims_of<Y>::template index<E>;
      constexpr auto fixed_x = dims_of<X>::static_extents[in_x], fixed_y = dims_of<Y>::static_extents[in_y];
      static_assert(fixed_x == dynamic_extent || fixed_y == dynamic_extent || fixed_x == fixed_y,
                    "weft: the two tensors have different static extents in a dimension that both have");
      out[at++] = {E::name, in_x, in_y};
    }
  };
  [&]<class... Es>(dims<Es...>) { (add.template operator()<tag_of<Es>>(), ...); }(dims_of<X>{});
  return out;
}

/// Extents of the dimensions both tensors have, but D, agree, or a sentence says which doesn't.
template <class D = void, class X, class Y>
void check_shared_extents(const X& x, const Y& y) {
  static constexpr auto shared = shared_dimensions<X, Y, D>();
  if constexpr (shared.size() > 0) check_shared_extents(untyped(x), untyped(y), shared);
}

}  // namespace weft::detail
