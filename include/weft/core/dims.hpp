// The dimensions of a tensor: an ordered set of tags, each with an extent known at run time or, with
// `extent<tag, n>`, at compile time. Invariant: no tag appears twice.
#pragma once

#include <weft/core/tags.hpp>

namespace weft {

inline constexpr std::int64_t dynamic_extent = -1;

/// A dimension whose global extent is known at compile time: `dims<batch, extent<hidden, 384>>`.
template <dimension D, std::int64_t N>
struct extent {
  static_assert(N > 0, "weft: a static extent is at least 1");
};

namespace detail {
/// Refused. What follows goes on as if it were a dimension, so that one sentence is said.
template <class E>
struct entry {
  struct tag : dim_tag {
    static constexpr std::string_view name = "?";
  };
  static constexpr std::int64_t size = dynamic_extent;
  // Last, since clang leaves out what comes after one that fails.
  static_assert(!of_both_kinds<E>,
                "weft: a tag is a dimension or a mesh axis, and this one is both: declare two, one from weft::dim_tag "
                "and one from weft::axis_tag");
  static_assert(of_both_kinds<E> || !lacks_a_name<E, dim_tag>,
                "weft: a dimension's tag has a name: struct pixel : weft::dim_tag { static constexpr std::string_view "
                "name = \"pixel\"; };");
  static_assert(std::derived_from<E, dim_tag>,
                "weft: dims<...> lists dimensions, as batch or hidden, or extent<hidden, 64>, and nothing else; one "
                "of your own is struct pixel : weft::dim_tag { static constexpr std::string_view name = \"pixel\"; };");
};
template <dimension D>
struct entry<D> {
  using tag = D;
  static constexpr std::int64_t size = dynamic_extent;
};
template <dimension D, std::int64_t N>
struct entry<extent<D, N>> {
  using tag = D;
  static constexpr std::int64_t size = N;
};
}  // namespace detail

/// The tag of an entry of `dims`.
template <class Entry>
using tag_of = typename detail::entry<Entry>::tag;

namespace detail {
/// Whether tags that are two have two identities too.
template <class... Tags>
constexpr bool told_apart() {
  constexpr int n = sizeof...(Tags);
  if constexpr (n > 1) {
    constexpr dim_id ids[] = {id_of<Tags>...};
    constexpr bool once[] = {(count_of<Tags, Tags...> == 1)...};
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < i; ++j)
        if (once[i] && ids[i] == ids[j]) return false;
  }
  return true;
}
}  // namespace detail

/// An ordered set of dimensions, row-major: the last one is contiguous.
template <class... Entries>
struct dims {
  static constexpr int ndim = sizeof...(Entries);
  static_assert(((detail::count_of<tag_of<Entries>, tag_of<Entries>...> == 1) && ...),
                "weft: a dimension appears twice in a tensor; rename<from, to>(x) one of them");
  static_assert(detail::told_apart<tag_of<Entries>...>(),
                "weft: two dimensions of one name can't be told apart, since their types have one name too (types of "
                "two functions' own, or of two lambdas): give one another name");

  template <class D>
  static constexpr bool has = (std::same_as<tag_of<Entries>, D> || ...);

  /// Position of tag D, or -1.
  template <class D>
  static constexpr int index = [] {
    int i = 0, found = -1;
    ((std::same_as<tag_of<Entries>, D> ? void(found = i) : void(), ++i), ...);
    return found;
  }();

  /// Static extent of each dimension, or dynamic_extent.
  static constexpr std::int64_t static_extents[sizeof...(Entries) ? sizeof...(Entries) : 1] = {
      detail::entry<Entries>::size...};
  static constexpr std::string_view names[sizeof...(Entries) ? sizeof...(Entries) : 1] = {tag_of<Entries>::name...};
  static constexpr dim_id ids[sizeof...(Entries) ? sizeof...(Entries) : 1] = {id_of<tag_of<Entries>>...};
};

template <class T>
inline constexpr bool is_dims = false;
template <class... Es>
inline constexpr bool is_dims<dims<Es...>> = sizeof(dims<Es...>) > 0;  // makes it say so where a tag is there twice

namespace detail {

template <class... Lists>
struct concat;
template <class... As>
struct concat<dims<As...>> {
  using type = dims<As...>;
};
template <class... As, class... Bs, class... Rest>
struct concat<dims<As...>, dims<Bs...>, Rest...> : concat<dims<As..., Bs...>, Rest...> {};

template <bool Keep, class E>
using dims_if = std::conditional_t<Keep, dims<E>, dims<>>;

template <class D, class Tags>
struct without;
template <class... Es, class... Tags>
struct without<dims<Es...>, tag_list<Tags...>>
    : concat<dims<>, dims_if<!contains<tag_list<Tags...>, tag_of<Es>>, Es>...> {};

template <class D, class Other>
struct missing;
template <class... Es, class Other>
struct missing<dims<Es...>, Other> : concat<dims<>, dims_if<!Other::template has<tag_of<Es>>, Es>...> {};

template <class D, class From, class To>
struct renamed;
template <class E, class From, class To>
struct renamed_entry {
  using type = E;
};
template <class From, class To>
struct renamed_entry<From, From, To> {
  using type = To;
};
template <std::int64_t N, class From, class To>
struct renamed_entry<extent<From, N>, From, To> {
  using type = extent<To, N>;
};
template <class... Es, class From, class To>
struct renamed<dims<Es...>, From, To> {
  using type = dims<typename renamed_entry<Es, From, To>::type...>;
};

}  // namespace detail

/// D without the given tags, order kept.
template <class D, class... Tags>
using dims_without = typename detail::without<D, tag_list<Tags...>>::type;
/// The entries of D whose tags Other lacks.
template <class D, class Other>
using dims_missing = typename detail::missing<D, Other>::type;
template <class... Ds>
using dims_concat = typename detail::concat<Ds...>::type;
template <class D, class From, class To>
using dims_renamed = typename detail::renamed<D, From, To>::type;

}  // namespace weft
