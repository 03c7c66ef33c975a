// What a refused program is refused for, as types: both compilers print a static_assert's condition, and it reads
// `none<pending_sum_over<tp>>`, beside the sentence that says what to write.
// Invariant: `none<W>` is true of a W without arguments, and of nothing else.
#pragma once

#include <weft/core/dtype.hpp>
#include <weft/core/layout.hpp>

namespace weft {

/// A sum is pending over these axes: each of their ranks holds one addend.
template <class... Axes>
struct pending_sum_over {};
/// Sharded over these axes: each of their ranks holds a slice.
template <class... Axes>
struct sharded_over {};
/// Whole on every rank of these axes; invariant there; replicate there.
template <class... Axes>
struct whole_over {};
template <class... Axes>
struct invariant_over {};
template <class... Axes>
struct replicated_over {};
/// Not among a tensor's dimensions.
template <class... Dims>
struct no_dimension {};
/// Named more than once.
template <class... Dims>
struct named_twice {};
/// Made from a tensor that differs in this.
template <class... What>
struct made_from {};
/// Elements of this type, where an operator computes with floating ones.
template <class... T>
struct elements_of {};
/// Tensors of these backends meet, which are not one.
template <class... Backends>
struct of_backends {};

namespace detail {

struct refused_part {};
/// What a refused call returns, so that neither `auto y = call` nor `auto [h, y] = call` is an error of its own.
struct refused_call {
  refused_part first, second;
};

template <class What>
inline constexpr bool none = false;
template <template <class...> class What>
inline constexpr bool none<What<>> = true;

// The first of two lists of axes as W<...>: those on which layout L holds K.
template <template <class...> class W, class L, holds K, class Axes>
struct axes_holding;
template <template <class...> class W, class L, holds K, class... As>
struct axes_holding<W, L, K, tag_list<As...>> {
  template <class... Bs>
  static W<Bs...> as(tag_list<Bs...>);
  using type = decltype(as(
      typename join_lists<std::conditional_t<state_on<L, As>.kind == K, tag_list<As>, tag_list<>>...>::type{}));
};

template <class... Ds>
no_dimension<Ds...> as_no_dimension(tag_list<Ds...>);

// Those of the wanted dimensions that D lacks.
template <class D, class... Wanted>
using lacked = decltype(as_no_dimension(
    typename join_lists<std::conditional_t<D::template has<Wanted>, tag_list<>, tag_list<Wanted>>...>::type{}));

template <class... Ds>
named_twice<Ds...> as_named_twice(tag_list<Ds...>);

// Those of the dimensions that are named more than once.
template <class... Ds>
using repeated = decltype(as_named_twice(
    typename join_lists<std::conditional_t<count_of<Ds, Ds...> == 1, tag_list<>, tag_list<Ds>>...>::type{}));

// The dimensions that a layout shards and D lacks.
template <class D, class L>
struct foreign;
template <class D, class... Ps>
struct foreign<D, layout<Ps...>> {
  template <class P>
  static tag_list<> one(P*);
  template <class E, class... As>
  static std::conditional_t<D::template has<E> || !dimension<E>, tag_list<>, tag_list<E>> one(shard<E, As...>*);
  using type = decltype(as_no_dimension(typename join_lists<decltype(one(static_cast<Ps*>(nullptr)))...>::type{}));
};

template <class... Ts>
struct first_integer {
  using type = elements_of<>;
};
template <class T, class... Ts>
struct first_integer<T, Ts...> {
  using type = elements_of<T>;
};
template <floating T, class... Ts>
struct first_integer<T, Ts...> : first_integer<Ts...> {};

}  // namespace detail

/// The first element type of these tensors that isn't floating: `elements_of<int>`, or without an argument.
template <class... Xs>
using integers_in = typename detail::first_integer<typename Xs::element_type...>::type;

namespace detail {
template <class X, class... Xs>
struct several_backends {
  using type = std::conditional_t<(std::same_as<typename X::backend, typename Xs::backend> && ...), of_backends<>,
                                  of_backends<typename X::backend, typename Xs::backend...>>;
};
}  // namespace detail

/// The backends of these tensors where they have several: `of_backends<cpu_backend, mine>`, or without an argument.
template <class... Xs>
using backends_in = typename detail::several_backends<Xs...>::type;

namespace detail {
/// Says what is wrong where an operator's tensors belong to several backends.
template <class... Xs>
constexpr bool ask_backends() {
  static_assert(none<backends_in<Xs...>>,
                "weft: these tensors belong to different backends, and an operator's to one: write the type of each "
                "with the same strategy's S::backend");
  return true;  // it was said
}
}  // namespace detail

/// The sums pending in a layout: `pending_sum_over<tp>`, or without an argument.
template <class L>
using pending_in = typename detail::axes_holding<pending_sum_over, L, holds::partial, axes_of<L>>::type;
/// The axes over which a layout shards: `sharded_over<dp>`, or without an argument.
template <class L>
using sharded_in = typename detail::axes_holding<sharded_over, L, holds::shard, axes_of<L>>::type;

/// What layout L holds over axis A in place of a pending sum: `whole_over<tp>`, `sharded_over<tp>`; without an argument
/// where a sum is pending, over A or others.
template <class L, class A>
using nothing_pending =
    std::conditional_t<has_partial<L>, whole_over<>,
                       std::conditional_t<state_on<L, A>.kind == holds::shard, sharded_over<A>, whole_over<A>>>;
/// The sums pending in layout L where none is over axis A, else without an argument.
template <class L, class A>
using pending_elsewhere = std::conditional_t<state_on<L, A>.kind == holds::partial, pending_sum_over<>, pending_in<L>>;

}  // namespace weft
