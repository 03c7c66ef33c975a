// Contraction: the sum over named dimensions of a product. Dimensions that both sides have and that are not summed are
// batch dimensions. A bias, and gelu, may follow in one. Invariant: a contracted dimension sharded on both sides leaves
// a sum pending; on one side it is refused.
#pragma once

#include <weft/op/contract_engine.hpp>
#include <weft/op/contract_epilogue.hpp>
#include <weft/op/pair_rule.hpp>

namespace weft {

namespace detail {

/// The contraction of a and b as Operands are taken: exact_operands, or what another header has.
template <class Operands, dimension... Ks, any_tensor A, any_tensor B>
auto contract_as(const A& a, const B& b, call_site at) {
  static_assert(sizeof...(Ks) > 0, "weft: contract<dim...>(a, b) names the dimensions to sum over");
  using a_lacks = lacked<dims_of<A>, Ks...>;
  using b_lacks = lacked<dims_of<B>, Ks...>;
  static_assert(
      none<a_lacks> && none<b_lacks>,
      "weft: contract<dim...>(a, b) sums over dimensions that both a and b have: name others, or rename<from, "
      "to>(x) one");
  using twice = repeated<Ks...>;
  static_assert(none<twice>, "weft: contract<dim...>(a, b) names a dimension twice: name it once");
  static_assert(none<integers_in<A, B>>,
                "weft: contract<dim...>(a, b) takes floating elements: cast<float>(x) the integers");
  if constexpr (sizeof...(Ks) > 0 && none<a_lacks> && none<b_lacks> && none<twice> && none<integers_in<A, B>>) {
    using rule = pair_rule<pairing::product, A, B, tag_list<Ks...>>;
    using out_dims = dims_without<dims_concat<dims_of<A>, dims_missing<dims_of<B>, dims_of<A>>>, Ks...>;
    if constexpr (rule::ok) {
      check_shared_extents(a, b);
      using result = basic_tensor<typename A::element_type, out_dims, typename rule::layout, typename A::backend>;
      using engine = contraction<typename A::backend, typename A::element_type, Operands>;
      static constexpr auto labels = labels_of<dims_of<A>, dims_of<B>, out_dims>();
      return result(engine::forward(promoted<typename rule::layout>(a, "contract", at),
                                    promoted<typename rule::layout>(b, "contract", at), labels, valid_part(a),
                                    valid_part(b)));
    }
  }
}

}  // namespace detail

/// contract<k...>(a, b): out[batch..., a's..., b's...] = sum over k of a * b.
/// Shape: a's dimensions without k, in their order, then those of b that a lacks. Sums are in float (double for
/// double); where k is several dimensions that don't lie alike on both sides, a 16-bit output is rounded once for each
/// index of the outer ones. Placement, on each axis: k sharded on both sides gives partial; a kept dimension sharded on
/// one side stays sharded, the other side being whole; partial times whole is partial. Throws weft::failure when shared
/// extents differ. Cost: 2 * |out| * |k| operations forward, twice that backward.
template <dimension... Ks, any_tensor A, any_tensor B>
auto contract(const A& a, const B& b, call_site at = call_site::here()) {
  return detail::contract_as<detail::exact_operands, Ks...>(a, b, at);
}

namespace detail {

// The type of a contraction; void where it is refused, which is said then, or where nothing is named.
template <class Ks, class A, class B>
struct product_type {
  using type = void;
};
template <dimension K, dimension... Ks, class A, class B>
struct product_type<tag_list<K, Ks...>, A, B> {
  using type = decltype(contract<K, Ks...>(std::declval<const A&>(), std::declval<const B&>()));
};
template <class Ks, class A, class B>
using product_over = typename product_type<Ks, A, B>::type;

// Asked only where the dimensions fit, so that no second sentence is said.
template <class P, class Bias, bool Fit>
inline constexpr bool may_be_added = false;
template <any_tensor P, any_tensor Bias>
requires(pair_rule<pairing::sum, P, Bias>::ok) inline constexpr bool may_be_added<P, Bias, true> = true;

/// Whether a product of type P, or none where it was refused, and a bias are added in one operator: it has no dimension
/// that the product lacks, and their placements may be added. Where not, a sentence says so.
template <class P, class Bias>
struct takes_bias {
  static constexpr bool ok = false;
};
template <any_tensor P, any_tensor Bias>
struct takes_bias<P, Bias> {
  using beyond = dims_missing<dims_of<Bias>, dims_of<P>>;
  static_assert(none<beyond>,
                "weft: contract<dim...>(a, b, bias) adds a bias with dimensions of the product, and this one has "
                "another: sum it over that, or write contract<dim...>(a, b) + bias, which repeats the product");
  static_assert(none<integers_in<Bias>>,
                "weft: contract<dim...>(a, b, bias) takes floating elements: cast<float>(x) the integers");
  static constexpr bool ok = may_be_added < P, Bias, none<beyond>&&none < integers_in < Bias >>> ;
};

// A product of type P with a bias added, as one operator; and gelu of it, in one pass where that can be.
template <class P, bool Gelu, class... Ks, any_tensor A, any_tensor B, any_tensor Bias>
auto contract_biased(const A& a, const B& b, const Bias& bias, call_site at) {
  using rule = pair_rule<pairing::sum, P, Bias>;
  const auto finished = [](auto&& y) {
    if constexpr (Gelu)
      return gelu(y);
    else
      return std::move(y);
  };
  if constexpr (!promoted_axes<typename rule::layout, P>.empty()) {
    return finished(contract<Ks...>(a, b, at) + bias);
  } else {
    using of_product = layout_of<P>;
    check_shared_extents(a, b), check_shared_extents(a, bias), check_shared_extents(b, bias);
    using result = basic_tensor<typename P::element_type, dims_of<P>, typename rule::layout, typename P::backend>;
    using engine = biased_contraction<typename P::backend, typename P::element_type>;
    static constexpr auto labels = labels_of<dims_of<A>, dims_of<B>, dims_of<P>>();
    static constexpr auto map = broadcast_of<dims_of<P>, dims_of<P>, dims_of<Bias>>();
    return result(engine::template forward<Gelu>(
        promoted<of_product>(a, "contract", at), promoted<of_product>(b, "contract", at),
        promoted<typename rule::layout>(bias, "contract", at), labels, valid_part(a), valid_part(b), map));
  }
}

}  // namespace detail

/// contract<k...>(a, b) + bias as one operator: a linear layer. Shape: bias has some of the output's dimensions, in any
/// order, usually those of b, as [heads, head_dim]. Placement: a and b as above; the sum's as of a + b, so that a bias
/// behind a pending sum is refused: all_reduce<axis> the product first and add the bias to that. A backend may add it
/// before the sums are rounded (CUDA does, where the bias lies along the output's last dimensions), so a 16-bit output
/// may differ from that of the two operators by a rounding. What checkpoint_selective keeps is the sum.
template <dimension... Ks, any_tensor A, any_tensor B, any_tensor Bias>
auto contract(const A& a, const B& b, const Bias& bias, call_site at = call_site::here()) {
  static_assert(sizeof...(Ks) > 0, "weft: contract<dim...>(a, b, bias) names the dimensions to sum over");
  using product = detail::product_over<tag_list<Ks...>, A, B>;
  if constexpr (detail::takes_bias<product, Bias>::ok)
    return detail::contract_biased<product, false, Ks...>(a, b, bias, at);
}

/// gelu(contract<k...>(a, b, bias)), the tanh form, recorded as these two operators and computed in one pass where the
/// backend can (CUDA, of a bias along the output's last dimensions): the first layer of a GPT-2's MLP. gelu is then of
/// the sums before they are rounded. Within a checkpointed function the two are computed apart, so that its second run
/// gives the same bits. Shape and placement: as contract<k...>(a, b, bias), which may have no pending sum.
template <dimension... Ks, any_tensor A, any_tensor B, any_tensor Bias>
auto contract_gelu(const A& a, const B& b, const Bias& bias, call_site at = call_site::here()) {
  static_assert(sizeof...(Ks) > 0, "weft: contract_gelu<dim...>(a, b, bias) names the dimensions to sum over");
  using product = detail::product_over<tag_list<Ks...>, A, B>;
  if constexpr (detail::takes_bias<product, Bias>::ok) {
    using sum = detail::pair_rule<detail::pairing::sum, product, Bias>;
    static_assert(
        detail::none<pending_in<typename sum::layout>>,
        "weft: gelu of a pending sum is not the sum of the ranks' gelus: all_reduce<axis> the product, then gelu(x)");
    if constexpr (detail::none<pending_in<typename sum::layout>>)
      return detail::contract_biased<product, true, Ks...>(a, b, bias, at);
  }
}

}  // namespace weft
