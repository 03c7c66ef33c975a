// What custom_gradient asks of its struct, a sentence each: a name, numbers for members, a forward that takes these
// tensors, and a vjp whose gradients are placed as the duals of their inputs.
#pragma once

#include <string_view>
#include <tuple>
#include <utility>

#include <weft/core/refusal.hpp>
#include <weft/op/formula_says.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

/// A gradient that vjp gives back, and the type that it should have.
template <class... GivenThenWanted>
struct gradient_in_place_of {};

namespace detail {

template <class... Xs>
struct floating_tensors {
  using type =
      typename join_lists<std::conditional_t<floating<typename Xs::element_type>, tag_list<Xs>, tag_list<>>...>::type;
};

/// What forward gives back: Y, std::tuple<Ys...>, or one of both in a pair with what is kept, K or std::tuple<Ks...>.
template <class T>
struct tensors_in {
  static constexpr bool ok = false;
};
template <any_tensor Y>
struct tensors_in<Y> {
  static constexpr bool ok = true;
  using list = tag_list<Y>;
  static std::tuple<Y> tuple(const Y& y) { return {y}; }
};
template <any_tensor... Ys>
requires(!std::is_reference_v<Ys> && ...) struct tensors_in<std::tuple<Ys...>> {
  static constexpr bool ok = true;
  using list = tag_list<Ys...>;
  static const std::tuple<Ys...>& tuple(const std::tuple<Ys...>& y) { return y; }
};
template <class R>
struct custom_result {
  using outputs = tensors_in<R>;
  using kept = tensors_in<std::tuple<>>;
  static constexpr bool ok = outputs::ok;
  static const R& made(const R& r) { return r; }
  static std::tuple<> saved(const R&) { return {}; }
};
template <>
struct custom_result<void> {
  static constexpr bool ok = false;
};
template <class Y, class K>
struct custom_result<std::pair<Y, K>> {
  using outputs = tensors_in<Y>;
  using kept = tensors_in<K>;
  static constexpr bool ok = outputs::ok && kept::ok;
  static const Y& made(const std::pair<Y, K>& r) { return r.first; }
  static const K& saved(const std::pair<Y, K>& r) { return r.second; }
};

template <class G, class W, class D>
inline constexpr bool placed_as = false;
template <class G, class W, class... Es>
inline constexpr bool placed_as<G, W, dims<Es...>> = []<class... As>(tag_list<As...>) {
  return (std::same_as<shard_axes<G, tag_of<Es>>, shard_axes<W, tag_of<Es>>> && ...) &&
         ((state_on<G, As> == state_on<W, As> ||
           (state_on<G, As>.kind == holds::invariant && state_on<W, As>.kind == holds::replicate)) &&
          ...);
}(typename join_lists<axes_of<G>, axes_of<W>>::type{});
/// Whether a G is a gradient of an X: its dual, in which what is the same on all ranks may be called invariant, and
/// sums may be left in the type in which they were computed.
template <class G, class X>
constexpr bool fits_as_gradient() {
  using wanted = typename X::gradient_type;
  if constexpr (std::same_as<G, wanted>)
    return true;
  else if constexpr (any_tensor<G>)
    return (std::same_as<typename G::element_type, typename X::element_type> ||
            std::same_as<typename G::element_type, accumulate_t<typename X::element_type>>)&&std::
               same_as<typename G::backend, typename X::backend> &&
           std::same_as<dims_of<G>, dims_of<X>> && placed_as<layout_of<G>, layout_of<wanted>, dims_of<X>>;
  else
    return false;
}
template <class G, class X>
using other_gradient = std::conditional_t<fits_as_gradient<G, X>(), gradient_in_place_of<>,
                                          gradient_in_place_of<G, typename X::gradient_type>>;

/// What vjp gives back, G or std::tuple<Gs...>, beside its inputs.
template <class R, class Xs>
struct custom_gradients {
  static constexpr bool count = false, ok = false;
};
template <any_tensor G, class X>
struct custom_gradients<G, tag_list<X>> {
  static constexpr bool count = true, ok = fits_as_gradient<G, X>();
  static_assert(none<other_gradient<G, X>>,
                "weft: vjp gives back gradients of their inputs' types, X::gradient_type: the same elements and "
                "dimensions, and sums pending where the input is replicate, replicate where its sum is pending; where "
                "ranks have addends only, all_reduce<axis>(dx) them");
  static std::tuple<const G&> all(const G& g) { return {g}; }
};
template <class... Gs, class... Xs>
requires(sizeof...(Gs) == sizeof...(Xs) &&
         (!std::is_reference_v<Gs> && ...)) struct custom_gradients<std::tuple<Gs...>, tag_list<Xs...>> {
  static constexpr bool count = true, ok = (fits_as_gradient<Gs, Xs>() && ...);
  static_assert((none<other_gradient<Gs, Xs>> && ...),
                "weft: vjp gives back gradients of their inputs' types, X::gradient_type: the same elements and "
                "dimensions, and sums pending where the input is replicate, replicate where its sum is pending; where "
                "ranks have addends only, all_reduce<axis>(dx) them");
  static const std::tuple<Gs...>& all(const std::tuple<Gs...>& g) { return g; }
};

/// What is asked of the struct before its functions are called, a sentence each.
template <class F>
struct custom_members {
  static constexpr bool has_name = requires { std::string_view(F::name).size(); };
  static_assert(has_name,
                "weft: custom_gradient(f, x, ...) takes a struct with forward, vjp and a name, which errors and traces "
                "say: static constexpr std::string_view name = \"gate\";");
  static constexpr bool fits =
      std::is_trivially_copyable_v<F> && std::is_copy_assignable_v<F> && sizeof(F) <= 200 && !points_elsewhere<F>();
  static_assert(
      fits,
      "weft: the struct of custom_gradient(f, x, ...) is copied, and its backward runs later: let its members "
      "be numbers, 200 bytes at most, no const ones and no references, and give it the tensors that it "
      "computes with as x, ..., so that they get gradients");
  static constexpr bool ok = has_name && fits;
};
template <class F, class... Xs>
struct custom_forward : custom_members<F> {
  using inputs = typename floating_tensors<Xs...>::type;
  static constexpr bool callable = requires(const F& f, const Xs&... x) { f.forward(x...); };
  static_assert(
      callable,
      "weft: custom_gradient(f, x, ...) calls f.forward(x, ...), and forward doesn't take these tensors: write "
      "it as template <class X> auto forward(const X& x, ...) const");
  static constexpr bool floats = inputs::size > 0;
  static_assert(floats,
                "weft: custom_gradient(f, x, ...) takes a tensor of floating elements, as others have no gradient");
  static constexpr bool ok = custom_members<F>::ok && callable && floats;
};
template <class F, class R, class... Xs>
struct custom_backward {
  using result = custom_result<R>;
  static_assert(
      result::ok,
      "weft: forward of custom_gradient(f, x, ...) gives back its output, or std::tuple(y, z) of several; and "
      "with it what vjp reads, as std::pair(y, std::tuple(x, ...)), all of them tensors");
  template <class... Ys, class... Ks>
  static constexpr auto called(tag_list<Ys...>, tag_list<Ks...>) {
    constexpr bool floats = sizeof...(Ys) > 0;
    static_assert(
        floats,
        "weft: forward of custom_gradient(f, x, ...) has an output of floating elements, as others have no gradient");
    constexpr bool callable = requires(const F& f, const typename Ys::gradient_type&... dy, const Ks&... kept) {
      f.vjp(dy..., kept...);
    };
    static_assert(callable,
                  "weft: custom_gradient(f, x, ...) calls f.vjp(dy, ..., kept, ...) with the gradient of each floating "
                  "output and with what forward kept, and vjp doesn't take these: write it as template <class G, class "
                  "X> auto vjp(const G& dy, const X& x, ...) const");
    if constexpr (floats && callable) {
      using given = std::remove_cvref_t<decltype(std::declval<const F&>().vjp(
          std::declval<const typename Ys::gradient_type&>()..., std::declval<const Ks&>()...))>;
      using checked = custom_gradients<given, typename floating_tensors<Xs...>::type>;
      static_assert(checked::count,
                    "weft: vjp of custom_gradient(f, x, ...) gives back the gradient of x, or a std::tuple of one for "
                    "each floating input, in their order");
      return std::bool_constant<checked::ok>{};
    } else {
      return std::false_type{};
    }
  }
  static constexpr bool check() {
    if constexpr (result::ok)
      return decltype(called(of_floats(typename result::outputs::list{}), typename result::kept::list{}))::value;
    else
      return false;
  }
  template <class... Ys>
  static typename floating_tensors<Ys...>::type of_floats(tag_list<Ys...>) {
    return {};
  }
};

}  // namespace detail

}  // namespace weft
