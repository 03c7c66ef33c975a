// Several mesh axes taken as one. Invariant: an axis is in a set once; which axes a set has, and their order, is all
// that it is.
#pragma once

#include "weft/core/error.hpp"
#include "weft/core/tags.hpp"

namespace weft {

/// The ranks along all of these axes as one group, the first axis outermost: along<dp, fsdp> has dp times fsdp ranks.
template <mesh_axis... As>
struct along {
  static_assert(sizeof...(As) > 0 && sizeof...(As) <= 6, "weft: along<...> names one to six mesh axes");
  static_assert(((detail::count_of<As, As...> == 1) && ...),
                "weft: along<...> names an axis twice; name every axis once");
};

namespace detail {
template <class A>
struct axes_named {
  using type = tag_list<>;
};
template <mesh_axis A>
struct axes_named<A> {
  using type = tag_list<A>;
};
template <class... As>
struct axes_named<along<As...>> {
  using type = tag_list<As...>;
};
}  // namespace detail

/// The axes of a mesh axis (itself), or of along<...>; an empty list for anything else.
template <class A>
using axes_along = typename detail::axes_named<A>::type;

/// The same at run time. Empty by default.
class axis_set {
  static constexpr int most = 8;

 public:
  constexpr axis_set() = default;
  constexpr axis_set(axis_id one) { add(one); }
  template <class... As>
  constexpr axis_set(tag_list<As...>) {
    static_assert(sizeof...(As) <= most, "weft: a tensor, or its storage, is placed over eight axes at most");
    (add(id_of<As>), ...);
  }

  /// Adds an axis, the innermost; one that is there already stays where it is.
  constexpr void add(axis_id axis) {
    if (has(axis)) return;
    if (size_ == most) fail("a set of axes has eight at most");
    at_[size_++] = axis;
  }
  constexpr bool has(axis_id axis) const {
    for (const axis_id a : *this)
      if (detail::same_axis(a, axis)) return true;
    return false;
  }
  constexpr int size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const axis_id* begin() const { return at_; }
  constexpr const axis_id* end() const { return at_ + size_; }

  /// "dp", "dp+fsdp"; "no axis".
  std::string name() const {
    std::string out;
    for (const axis_id a : *this) out += (out.empty() ? "" : "+") + std::string(a->name);
    return out.empty() ? "no axis" : out;
  }
  friend constexpr bool operator==(const axis_set& a, const axis_set& b) {
    if (a.size_ != b.size_) return false;
    for (int i = 0; i < a.size_; ++i)
      if (!detail::same_axis(a.at_[i], b.at_[i])) return false;
    return true;
  }

 private:
  axis_id at_[most] = {};
  int size_ = 0;
};

namespace detail {
/// Calls f(set) for every set of two axes or more of `all`, in an order of its own.
template <class F>
void each_subset(const axis_set& all, F&& f) {
  for (unsigned mask = 1; mask < 1u << all.size(); ++mask) {
    axis_set some;
    for (int i = 0; i < all.size(); ++i)
      if (mask >> i & 1) some.add(all.begin()[i]);
    if (some.size() > 1) f(some);
  }
}

}  // namespace detail

}  // namespace weft
