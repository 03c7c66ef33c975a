// Tags: the names of tensor dimensions and of mesh axes. A tag is an empty type with a name.
#pragma once

#include <weft/core/requirements.hpp>

#include <concepts>
#include <cstdint>
#include <string_view>

namespace weft {

/// Base of every dimension tag. A user's own: `struct pixel : weft::dim_tag { static constexpr std::string_view name =
/// "pixel"; };`
struct dim_tag {};
/// Base of every axis tag, made the same way.
struct axis_tag {};

template <class D>
concept dimension = std::derived_from<D, dim_tag> && requires {
  std::string_view(D::name);
};
template <class A>
concept mesh_axis = std::derived_from<A, axis_tag> && requires {
  std::string_view(A::name);
};

#define WEFT_DETAIL_DIM(tag)                       \
  struct tag : dim_tag {                           \
    static constexpr std::string_view name = #tag; \
  }
WEFT_DETAIL_DIM(batch);     // sequences of a batch
WEFT_DETAIL_DIM(seq);       // positions in a sequence
WEFT_DETAIL_DIM(hidden);    // width of the residual stream
WEFT_DETAIL_DIM(ffn);       // width inside the feed-forward block
WEFT_DETAIL_DIM(heads);     // query heads
WEFT_DETAIL_DIM(kv_heads);  // key and value heads
WEFT_DETAIL_DIM(head_dim);  // width of one head
WEFT_DETAIL_DIM(vocab);     // tokens of the vocabulary
WEFT_DETAIL_DIM(layer);     // layers of the model
WEFT_DETAIL_DIM(expert);    // experts of a mixture
#undef WEFT_DETAIL_DIM

#define WEFT_DETAIL_AXIS(tag)                      \
  struct tag : axis_tag {                          \
    static constexpr std::string_view name = #tag; \
  }
WEFT_DETAIL_AXIS(dp);             // data parallel
WEFT_DETAIL_AXIS(tp);             // tensor parallel
WEFT_DETAIL_AXIS(pp);             // pipeline parallel
WEFT_DETAIL_AXIS(cp);             // context parallel
WEFT_DETAIL_AXIS(ep);             // expert parallel
WEFT_DETAIL_AXIS(pipeline_ends);  // the first and the last stage along pp; derived from it, never part of a mesh
#undef WEFT_DETAIL_AXIS

namespace detail {
/// A run-time identity of a tag: the address of a variable of its own.
template <class Tag>
inline constexpr char tag_identity = 0;
}  // namespace detail

using axis_id = const char*;
template <mesh_axis A>
inline constexpr axis_id id_of = &detail::tag_identity<A>;

/// A list of tags.
template <class... Ts>
struct list {
  static constexpr int size = sizeof...(Ts);
};

template <class List, class T>
inline constexpr bool contains = false;
template <template <class...> class List, class... Ts, class T>
inline constexpr bool contains<List<Ts...>, T> = (std::same_as<Ts, T> || ...);

}  // namespace weft
