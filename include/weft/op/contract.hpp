// Contraction: the sum over named dimensions of a product. Dimensions that both sides have and that are not summed are
// batch dimensions. Invariant: a contracted dimension sharded on both sides leaves a sum pending; on one side it is
// refused.
#pragma once

#include <weft/op/contract_engine.hpp>
#include <weft/op/pair_rule.hpp>

namespace weft {

/// contract<k...>(a, b): out[batch..., a's..., b's...] = sum over k of a * b.
/// Shape: a's dimensions without k, in their order, then those of b that a lacks. Sums are in float (double for
/// double); where k is several dimensions that don't lie alike on both sides, a 16-bit output is rounded once for each
/// index of the outer ones. Placement, on each axis: k sharded on both sides gives partial; a kept dimension sharded on
/// one side stays sharded, the other side being whole; partial times whole is partial. Throws weft::failure when shared
/// extents differ. Cost: 2 * |out| * |k| operations forward, twice that backward.
template <dimension... Ks, any_tensor A, any_tensor B>
auto contract(const A& a, const B& b, call_site at = call_site::here()) {
  static_assert(sizeof...(Ks) > 0, "weft: contract<dim...>(a, b) names the dimensions to sum over");
  using a_lacks = detail::lacked<dims_of<A>, Ks...>;
  using b_lacks = detail::lacked<dims_of<B>, Ks...>;
  static_assert(
      detail::none<a_lacks> && detail::none<b_lacks>,
      "weft: contract<dim...>(a, b) sums over dimensions that both a and b have: name others, or rename<from, "
      "to>(x) one");
  using twice = detail::repeated<Ks...>;
  static_assert(detail::none<twice>, "weft: contract<dim...>(a, b) names a dimension twice: name it once");
  static_assert(detail::none<integers_in<A, B>>,
                "weft: contract<dim...>(a, b) takes floating elements: cast<float>(x) the integers");
  if constexpr (sizeof...(Ks) > 0 && detail::none<a_lacks> && detail::none<b_lacks> && detail::none<twice> &&
                detail::none<integers_in<A, B>>) {
    using rule = detail::pair_rule<detail::pairing::product, A, B, tag_list<Ks...>>;
    using out_dims = dims_without<dims_concat<dims_of<A>, dims_missing<dims_of<B>, dims_of<A>>>, Ks...>;
    if constexpr (rule::ok) {
      detail::check_shared_extents(a, b);
      using result = basic_tensor<typename A::element_type, out_dims, typename rule::layout, typename A::backend>;
      using engine = detail::contraction<typename A::backend, typename A::element_type>;
      static constexpr auto labels = detail::labels_of<dims_of<A>, dims_of<B>, out_dims>();
      return result(engine::forward(detail::promoted<typename rule::layout>(a, "contract", at),
                                    detail::promoted<typename rule::layout>(b, "contract", at), labels,
                                    detail::valid_part(a), detail::valid_part(b)));
    }
  }
}

}  // namespace weft
