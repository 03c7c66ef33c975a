// The mesh: named axes that ranks are arranged along, the last one varying fastest. Which axes there are is
// compile-time; how many ranks lie along each is run-time, unless the axis fixes it. Invariant: an axis not named has
// one rank.
#pragma once

#include <weft/core/error.hpp>
#include <weft/core/tags.hpp>

namespace weft {

/// An axis whose degree is fixed by its type: `mesh<dp, axis<tp, 4>>`.
template <mesh_axis A, int Degree>
struct axis {
  static_assert(Degree >= 1, "weft: an axis has at least one rank");
};

/// The degrees of a user's own axes.
struct own_degrees {
  struct entry {
    axis_id axis;
    int degree;
    friend constexpr bool operator==(const entry&, const entry&) = default;
  };
  entry at[4];
  friend constexpr bool operator==(const own_degrees&, const own_degrees&) = default;
};

/// How many ranks lie along each axis: `degrees{.dp = 2, .tp = 4}`, and `degrees{.dp = 2}.with<rows>(3)` for a user's
/// own.
struct degrees {
  int dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  own_degrees own = {};

  /// The degree of one of the library's axes, or null.
  template <class Degrees>
  static constexpr auto known(Degrees& in, axis_id axis) -> decltype(&in.dp) {
    if (axis == id_of<weft::dp>) return &in.dp;
    if (axis == id_of<weft::tp>) return &in.tp;
    if (axis == id_of<weft::pp>) return &in.pp;
    if (axis == id_of<weft::cp>) return &in.cp;
    return axis == id_of<weft::ep> ? &in.ep : nullptr;
  }

  /// These degrees with that of axis A. Throws weft::failure at the fifth axis of one's own.
  template <mesh_axis A>
  constexpr degrees with(int degree) const {
    return with(id_of<A>, degree);
  }
  constexpr degrees with(axis_id axis, int degree) const {
    degrees out = *this;
    if (int* member = known(out, axis)) {
      *member = degree;
      return out;
    }
    for (own_degrees::entry& e : out.own.at)
      if (!e.axis || e.axis == axis) {
        e = {axis, degree};
        return out;
      }
    fail("axis ", std::string(axis->name),
         " is the fifth of one's own, and degrees have room for four; use one of dp, tp, pp, cp, ep for it");
  }

  /// Ranks along an axis; 1 where none are told.
  template <mesh_axis A>
  constexpr int of() const {
    return of(id_of<A>);
  }
  constexpr int of(axis_id axis) const {
    if (const int* member = known(*this, axis)) return *member;
    for (const own_degrees::entry& e : own.at)
      if (e.axis == axis) return e.degree;
    return 1;
  }
  /// Ranks in all.
  constexpr std::int64_t product() const {
    std::int64_t n = std::int64_t{dp} * tp * pp * cp * ep;
    for (const own_degrees::entry& e : own.at) n *= e.axis ? e.degree : 1;
    return n;
  }
  friend constexpr bool operator==(const degrees&, const degrees&) = default;
};

namespace detail {
/// Refused. What follows goes on as if it were an axis, so that one sentence is said.
template <class E>
struct mesh_entry {
  struct tag : axis_tag {
    static constexpr std::string_view name = "?";
  };
  static constexpr int fixed = 0;
  // Last, since clang leaves out what comes after one that fails.
  static_assert(!lacks_a_name<E, axis_tag>,
                "weft: a mesh axis's tag has a name: struct rows : weft::axis_tag { static constexpr std::string_view "
                "name = \"rows\"; };");
  static_assert(
      std::derived_from<E, axis_tag>,
      "weft: mesh<...> lists mesh axes, as dp or tp, or axis<tp, 4>, and no dimensions: a dimension is sharded "
      "over an axis, by shard<batch, dp> in a tensor's type");
};
template <mesh_axis A>
struct mesh_entry<A> {
  using tag = A;
  static constexpr int fixed = 0;
};
template <mesh_axis A, int N>
struct mesh_entry<axis<A, N>> {
  using tag = A;
  static constexpr int fixed = N;
};
}  // namespace detail

template <class... Entries>
struct mesh {
  using axes = tag_list<typename detail::mesh_entry<Entries>::tag...>;
  static_assert(
      ((detail::count_of<typename detail::mesh_entry<Entries>::tag, typename detail::mesh_entry<Entries>::tag...> ==
        1) &&
       ...),
      "weft: a mesh names an axis twice; name every axis once");
  static constexpr int ndim = sizeof...(Entries);
  static constexpr axis_id ids[sizeof...(Entries) ? sizeof...(Entries) : 1] = {
      id_of<typename detail::mesh_entry<Entries>::tag>...};
  /// The degree that the type fixes, or 0.
  static constexpr int fixed[sizeof...(Entries) ? sizeof...(Entries) : 1] = {detail::mesh_entry<Entries>::fixed...};
  template <class A>
  static constexpr bool has = contains<axes, A>;
};

template <class T>
inline constexpr bool is_mesh = false;
template <class... Es>
inline constexpr bool is_mesh<mesh<Es...>> = true;

}  // namespace weft
