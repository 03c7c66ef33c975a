// Numbers of the host that the ranks' types know: a rank's own number and extent, and the degree of an axis.
// Invariant: none becomes, by itself, a number that a tensor, a seed, an extent or an optimizer takes. They print,
// compare and compute with numbers; `.here()` takes the plain number out, where a rank's own is meant.
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <type_traits>
#include <utility>

#include <weft/core/refusal.hpp>

namespace weft {

namespace detail {
template <class X>
concept arithmetic = std::is_arithmetic_v<X>;

template <class To>
constexpr void refuse_varying() {
  static_assert(sizeof(To) == 0,
                "weft: this number is a rank's own, and others may have another: a tensor is scaled, seeded and sized "
                "by numbers that all ranks share, global_extent<dim>() of a tensor say; .here() takes it, where this "
                "rank's own is meant");
}
template <class To>
constexpr void refuse_degree() {
  static_assert(
      sizeof(To) == 0,
      "weft: a degree doesn't scale: sums over an axis are the business of types, partial<axis> and "
      "all_reduce<axis>, and losses are means of global extents; .here() takes the number, where it is meant");
}
}  // namespace detail

/// A number that may differ by rank: ctx.rank().here(), ctx.index<axis>().here(), an extent of a share. Compares and
/// prints as a T; what is computed with it varies too. `.here()`: this rank's, as a T.
template <detail::arithmetic T>
class varying {
 public:
  constexpr explicit varying(T own) : own_(own) {}
  constexpr T here() const { return own_; }
  /// Refused, in a sentence that says .here().
  template <detail::arithmetic To>
  constexpr operator To() const {
    detail::refuse_varying<To>();
    return {};
  }

  constexpr varying operator-() const { return varying(-own_); }
  template <class Char, class Traits>
  friend std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out, const varying& x) {
    return out << x.own_;
  }

 private:
  T own_;
};

/// How many ranks an axis has; of no axis, the world. The same on all of them: it divides and multiplies whole numbers,
/// and becomes one. A tensor times or over a degree is refused.
template <class... Axes>
class degree_of {
 public:
  constexpr explicit degree_of(int ranks) : ranks_(ranks) {}
  constexpr int here() const { return ranks_; }
  /// Whole numbers; others are refused.
  template <detail::arithmetic To>
  constexpr operator To() const {
    if constexpr (std::integral<To>)
      return static_cast<To>(ranks_);
    else
      return detail::refuse_degree<To>(), To{};
  }

  template <class Char, class Traits>
  friend std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out, const degree_of& x) {
    return out << x.ranks_;
  }

 private:
  int ranks_;
};

namespace detail {
template <class X>
inline constexpr bool is_varying = false;
template <class T>
inline constexpr bool is_varying<varying<T>> = true;
template <class X>
inline constexpr bool is_degree = false;
template <class... As>
inline constexpr bool is_degree<degree_of<As...>> = true;

template <class X>
concept host_number = is_varying<X> || is_degree<X>;
template <arithmetic X>
constexpr X plain(X x) {
  return x;
}
template <host_number X>
constexpr auto plain(X x) {
  return x.here();
}
// Of two numbers at least one of which a type knows; a degree with a number that isn't whole is no pair.
template <class A, class B>
concept host_pair = (host_number<A> || host_number<B>)&&(arithmetic<A> || host_number<A>)&&(arithmetic<B> ||
                                                                                            host_number<B>);
// What two plain numbers are computed in.
template <class A, class B>
using both = std::common_type_t<decltype(plain(std::declval<A>())), decltype(plain(std::declval<B>()))>;
template <class A, class B>
constexpr auto host_result(auto x) {
  if constexpr (is_varying<A> || is_varying<B>)
    return varying<decltype(x)>(x);
  else if constexpr (std::integral<decltype(x)>)
    return x;
  else
    return refuse_degree<decltype(x)>(), x;
}
}  // namespace detail

// A plain number takes what a degree is converted to, and refuses a varying one; a varying number takes both.
#define WEFT_DETAIL_HOST_NUMBERS(op)                                                                                   \
  template <class A, class B>                                                                                          \
  requires detail::host_pair<A, B>                                                                                     \
  constexpr auto operator op(A a, B b) {                                                                               \
    using both = detail::both<A, B>;                                                                                   \
    return detail::host_result<A, B>(both(detail::plain(a)) op both(detail::plain(b)));                                \
  }                                                                                                                    \
  template <detail::arithmetic N, detail::host_number H>                                                               \
  constexpr N& operator op##=(N& n, H h) {                                                                             \
    return n op## = static_cast<N>(h);                                                                                 \
  }                                                                                                                    \
  template <detail::arithmetic T, class B>                                                                             \
  requires(detail::arithmetic<B> || detail::host_number<B>) constexpr varying<T>& operator op##=(varying<T>& a, B b) { \
    return a = varying<T>(static_cast<T>((a op b).here()));                                                            \
  }
WEFT_DETAIL_HOST_NUMBERS(+)
WEFT_DETAIL_HOST_NUMBERS(-)
WEFT_DETAIL_HOST_NUMBERS(*)
WEFT_DETAIL_HOST_NUMBERS(/)
WEFT_DETAIL_HOST_NUMBERS(%)
#undef WEFT_DETAIL_HOST_NUMBERS

template <class A, class B>
requires detail::host_pair<A, B>
constexpr bool operator==(A a, B b) { return detail::plain(a) == detail::plain(b); }
template <class A, class B>
requires detail::host_pair<A, B>
constexpr auto operator<=>(A a, B b) { return detail::plain(a) <=> detail::plain(b); }

}  // namespace weft
