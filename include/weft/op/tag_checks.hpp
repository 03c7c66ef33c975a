// What is said to an operator that is given a tag of the wrong kind: sum<tp>(x), all_reduce<batch>(x), split<tp,
// ffn>(x). Without these overloads no function would fit, and the compiler would list all that don't. Invariant: none
// of them takes what a real operator takes.
#pragma once

#include <weft/core/refusal.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

/// Named where a dimension is wanted: `not_a_dimension<tp>`, and where a mesh axis is: `not_an_axis<batch>`.
template <class... Tags>
struct not_a_dimension {};
template <class... Tags>
struct not_an_axis {};

namespace detail {

template <template <class...> class What, bool Right, class Tag>
using unless = std::conditional_t<Right, What<>, What<Tag>>;
// The first of several tags that is no dimension.
template <class... Tags>
struct first_other {
  using type = not_a_dimension<>;
};
template <class Tag, class... Tags>
struct first_other<Tag, Tags...> {
  using type = not_a_dimension<Tag>;
};
template <dimension Tag, class... Tags>
struct first_other<Tag, Tags...> : first_other<Tags...> {};

template <class... Tags>
inline constexpr bool other_than_dimensions = !(dimension<Tags> && ...);
template <class D, class A>
inline constexpr bool other_than_dim_and_axis = !dimension<D> || !mesh_axis<A>;

}  // namespace detail

#define WEFT_DETAIL_DIMS(function)                                                                              \
  template <class... Tags, any_tensor X, class... More>                                                         \
  requires(detail::other_than_dimensions<Tags...>) detail::refused_call function(const X&, const More&...) {    \
    static_assert(detail::none<typename detail::first_other<Tags...>::type>,                                    \
                  "weft: " #function "<dim...> names dimensions of the tensor, as batch or hidden, no others"); \
    return {};                                                                                                  \
  }
WEFT_DETAIL_DIMS(sum)
WEFT_DETAIL_DIMS(mean)
WEFT_DETAIL_DIMS(contract)
WEFT_DETAIL_DIMS(softmax)
WEFT_DETAIL_DIMS(slice)
WEFT_DETAIL_DIMS(permute)
WEFT_DETAIL_DIMS(rename)
#undef WEFT_DETAIL_DIMS

#define WEFT_DETAIL_AXIS(function)                                                                  \
  template <class Tag, any_tensor X, class... More>                                                 \
  requires(!mesh_axis<Tag>) detail::refused_call function(const X&, const More&...) {               \
    static_assert(detail::none<not_an_axis<Tag>>,                                                   \
                  "weft: " #function "<axis>(x) names a mesh axis, as dp or tp, and no dimension"); \
    return {};                                                                                      \
  }
WEFT_DETAIL_AXIS(all_reduce)
WEFT_DETAIL_AXIS(all_gather)
WEFT_DETAIL_AXIS(shift)
WEFT_DETAIL_AXIS(ring)
#undef WEFT_DETAIL_AXIS

#define WEFT_DETAIL_DIM_AXIS(function)                                                                               \
  template <class D, class A, any_tensor X, class... More>                                                           \
  requires(detail::other_than_dim_and_axis<D, A>) detail::refused_call function(const X&, const More&...) {          \
    static_assert(detail::none<detail::unless<not_a_dimension, dimension<D>, D>> &&                                  \
                      detail::none<detail::unless<not_an_axis, mesh_axis<A>, A>>,                                    \
                  "weft: " #function "<dim, axis>(x) names a dimension first, as ffn, and then a mesh axis, as tp"); \
    return {};                                                                                                       \
  }
WEFT_DETAIL_DIM_AXIS(reduce_scatter)
WEFT_DETAIL_DIM_AXIS(split)
WEFT_DETAIL_DIM_AXIS(all_to_all)
#undef WEFT_DETAIL_DIM_AXIS

}  // namespace weft
