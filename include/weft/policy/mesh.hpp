// The mesh: named axes that ranks are arranged along, the last one varying fastest. Which axes there are is compile-time;
// how many ranks lie along each is run-time, unless the axis fixes it. Invariant: an axis not named has one rank.
#pragma once

#include <weft/core/tags.hpp>

namespace weft {

/// An axis whose degree is fixed by its type: `mesh<dp, axis<tp, 4>>`.
template <mesh_axis A, int Degree>
struct axis {
  static_assert(Degree >= 1, "weft: an axis has at least one rank");
};

/// How many ranks lie along each axis: `degrees{.dp = 2, .tp = 4}`. A user's own axes go into `others`.
struct degrees {
  int dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  struct named {
    std::string_view axis = {};
    int degree = 1;
    friend constexpr bool operator==(const named&, const named&) = default;
  };
  named others[4] = {};

  constexpr int of(std::string_view axis) const {
    if (axis == "dp") return dp;
    if (axis == "tp") return tp;
    if (axis == "pp") return pp;
    if (axis == "cp") return cp;
    if (axis == "ep") return ep;
    for (const named& n : others)
      if (n.axis == axis) return n.degree;
    return 1;
  }
  constexpr int product() const {
    int n = dp * tp * pp * cp * ep;
    for (const named& other : others) n *= other.degree;
    return n;
  }
  friend constexpr bool operator==(const degrees&, const degrees&) = default;
};

namespace detail {
template <class E> struct mesh_entry;
template <mesh_axis A> struct mesh_entry<A> {
  using tag = A;
  static constexpr int fixed = 0;
};
template <mesh_axis A, int N> struct mesh_entry<axis<A, N>> {
  using tag = A;
  static constexpr int fixed = N;
};
}  // namespace detail

template <class... Entries>
struct mesh {
  using axes = list<typename detail::mesh_entry<Entries>::tag...>;
  static constexpr int rank = sizeof...(Entries);
  static constexpr std::string_view names[rank ? rank : 1] = {detail::mesh_entry<Entries>::tag::name...};
  /// The degree that the type fixes, or 0.
  static constexpr int fixed[rank ? rank : 1] = {detail::mesh_entry<Entries>::fixed...};
  template <class A>
  static constexpr bool has = contains<axes, A>;
};

template <class T>
inline constexpr bool is_mesh = false;
template <class... Es>
inline constexpr bool is_mesh<mesh<Es...>> = true;

}  // namespace weft
