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
concept dimension = std::derived_from<D, dim_tag> && !std::derived_from<D, axis_tag> && requires {
  std::string_view(D::name);
};
template <class A>
concept mesh_axis = std::derived_from<A, axis_tag> && requires {
  std::string_view(A::name);
};

/// The library's dimensions. Their names are taken under `using namespace weft`: use them, or put a tag of your own
/// with such a name in a namespace.
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

/// The library's mesh axes, beside `fsdp` (policy/sharding.hpp); their names are taken too. `cp` and `ep` are for
/// programs: no model of the library's uses them. `pipeline_ends` follows from pp and is never part of a mesh.
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

/// What is known of an axis at run time. Which axis it is, is its address: two may have one name.
struct tag_name {
  std::string_view name, type;
};
namespace detail {
template <class T>
constexpr std::string_view type_in_words() {
  return __PRETTY_FUNCTION__;
}
// What stands round the name is the compiler's own.
inline constexpr std::size_t words_before_type = type_in_words<void>().find("void");
inline constexpr std::size_t words_round_type = type_in_words<void>().size() - 4;
/// A type's name, the same in objects of all compilers.
template <class T>
constexpr std::string_view type_name() {
  constexpr std::string_view words = type_in_words<T>();
  return words.substr(words_before_type, words.size() - words_round_type);
}
template <class Tag>
inline constexpr tag_name tag_identity{Tag::name, type_name<Tag>()};
/// Whether two are one axis: by its type's name while compiling, where addresses can't be compared under sanitizers.
constexpr bool same_axis(const tag_name* a, const tag_name* b) {
  return std::is_constant_evaluated() ? a->type == b->type : a == b;
}
}  // namespace detail

using axis_id = const tag_name*;
/// Which dimension a tag is: by the name of its type.
struct dim_id {
  std::string_view type, name;

  constexpr const dim_id* operator->() const { return this; }
  friend constexpr bool operator==(const dim_id& a, const dim_id& b) { return a.type == b.type; }
};
/// A tag's identity: `id_of<tp>`, `id_of<batch>->name`.
template <class Tag>
requires mesh_axis<Tag> || dimension<Tag>
inline constexpr const tag_name* id_of = &detail::tag_identity<Tag>;
template <dimension D>
inline constexpr dim_id id_of<D>{detail::type_name<D>(), D::name};

namespace detail {
/// An order of tags: by name and, where two have one name, by the type's.
template <class A, class B>
constexpr bool tag_before() {
  if constexpr (A::name != B::name || std::same_as<A, B>) {
    return A::name < B::name;
  } else {
    static_assert(type_name<A>() != type_name<B>(),
                  "weft: two tags of one name can't be told apart, since their types have one name too: rename one");
    return type_name<A>() < type_name<B>();
  }
}
}  // namespace detail

namespace detail {
/// What a type that is no tag of the wanted kind lacks, if it is meant to be one: a name, or one kind.
template <class Tag, class Base>
inline constexpr bool lacks_a_name = std::derived_from<Tag, Base> && !requires {
  std::string_view(Tag::name);
};
template <class Tag>
inline constexpr bool of_both_kinds = std::derived_from<Tag, dim_tag>&& std::derived_from<Tag, axis_tag>;
}  // namespace detail

/// A list of tags.
template <class... Ts>
struct tag_list {
  static constexpr int size = sizeof...(Ts);
};

namespace detail {
template <class Tag, class... Tags>
inline constexpr int count_of = (0 + ... + int(std::same_as<Tag, Tags>));
}  // namespace detail

template <class List, class T>
inline constexpr bool contains = false;
template <template <class...> class List, class... Ts, class T>
inline constexpr bool contains<List<Ts...>, T> = (std::same_as<Ts, T> || ...);

}  // namespace weft
