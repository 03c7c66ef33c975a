// Functions of tensors whose backward is written by hand: a struct with forward and vjp, of any number of tensors,
// which gives back one or several. Invariant: nothing in forward is recorded, and each gradient is placed as the dual
// of its input, or the program doesn't compile; so a collective that a backward lacks is found while compiling.
#pragma once

#include <array>
#include <tuple>
#include <utility>

#include <weft/autograd/recording.hpp>
#include <weft/core/refusal.hpp>
#include <weft/op/custom_call.hpp>
#include <weft/op/formula_numbers.hpp>
#include <weft/op/formula_says.hpp>

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

/// A call, with its types: of inputs Xs and outputs Ys of floating elements.
template <class F, class Xs, class Ys, class Ks>
struct custom_function;
template <class F, class... Xs, class... Ys, class... Ks>
struct custom_function<F, tag_list<Xs...>, tag_list<Ys...>, tag_list<Ks...>> : custom_call {
  static constexpr std::size_t inputs_count = sizeof...(Xs), outputs_count = sizeof...(Ys);
  F f;
  std::array<operand, sizeof...(Xs)> of_inputs;
  std::array<output, sizeof...(Ys)> of_outputs;
  std::array<shape, sizeof...(Ks)> of_kept;

  explicit custom_function(const F& what)
      : custom_call{std::string_view(F::name).data(), run, of_inputs, of_outputs}, f(what) {}

  template <class X, class G>
  static constexpr const gradient_work* by =
      &gradients_by<typename X::backend, typename X::element_type, typename G::element_type>;
  template <class Y>
  static typename Y::gradient_type gradient(context& ctx, const output& y) {
    using Backend = typename Y::backend;
    local_array dy = y.gradient;
    if (!dy) {  // nobody used it
      dy = ctx.make(dtype_of<typename Y::element_type>, y.local);
      Backend::zero(ctx.template queue<Backend>(), dy);
    }
    return typename Y::gradient_type(lent_to_vjp(ctx, y.whole, dy));
  }
  static void run(context& ctx, custom_call& call, tape_node& node) {
    auto& self = static_cast<custom_function&>(call);
    [&]<std::size_t... I, std::size_t... J, std::size_t... K>(std::index_sequence<I...>, std::index_sequence<J...>,
                                                              std::index_sequence<K...>) {
      const auto given = self.f.vjp(gradient<Ys>(ctx, self.of_outputs[J])...,
                                    Ks(lent_to_vjp(ctx, self.of_kept[K], node.saved(static_cast<int>(K))))...);
      const auto& all = custom_gradients<std::remove_cv_t<decltype(given)>, tag_list<Xs...>>::all(given);
      ((self.of_inputs[I].by = by<Xs, std::remove_cvref_t<decltype(std::get<I>(all))>>,
        self.template give<typename Xs::backend>(ctx, node, I, untyped(std::get<I>(all)))),
       ...);
    }
    (std::index_sequence_for<Xs...>{}, std::index_sequence_for<Ys...>{}, std::index_sequence_for<Ks...>{});
  }
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

inline bool wants_gradient(std::span<const value* const> inputs) {
  for (const value* x : inputs)
    if (x->slot && !x->slot->frozen) return true;
  return false;
}

/// What forward made, as tensors of their own, recorded as one function.
template <class F, class R, class... Xs>
auto custom_outputs(const F& f, const R& r, const Xs&... xs) {
  using result = custom_result<R>;
  auto outputs = result::outputs::tuple(result::made(r));
  const auto kept = result::kept::tuple(result::saved(r));
  const value* const operands[] = {&untyped(xs)...};
  context& ctx = *operands[0]->ctx;
  std::apply(
      [&]<class... Ys>(Ys&... y) {
        const value* const made[] = {&untyped(y)...};
        std::tuple<Ys...> own{Ys(own_output<typename Ys::backend>(untyped(y), operands, made))...};
        outputs = std::move(own);
        std::apply(
            [&]<class... Ks>(const Ks&... k) {
              if (ctx.replay) {
                const value* const reads[] = {&untyped(xs)..., &untyped(k)...};
                ctx.replay->called(std::string_view(F::name).data(), *made[0], reads,
                                   reinterpret_cast<std::uintptr_t>(&same_type<F>));  // in one process
              }
              if (!ctx.tape || !wants_gradient(operands)) return;
              using function = custom_function<F, typename floating_tensors<Xs...>::type,
                                               typename floating_tensors<Ys...>::type, tag_list<Ks...>>;
              const auto call = std::allocate_shared<function>(pool_allocator<function>(&ctx.records), f);
              std::array<const value*, function::inputs_count> in;
              std::array<value*, function::outputs_count> out;
              const std::array<const value*, sizeof...(Ks)> saved{&untyped(k)...};
              std::size_t i = 0, j = 0;
              ((floating<typename Xs::element_type> ? void(in[i++] = &untyped(xs)) : void()), ...);
              ((floating<typename Ys::element_type> ? void(out[j++] = &untyped(y)) : void()), ...);
              for (i = 0; i < in.size(); ++i) call->of_inputs[i].whole = in[i]->whole;
              for (j = 0; j < out.size(); ++j)
                call->of_outputs[j].whole = out[j]->whole, call->of_outputs[j].local = out[j]->sizes();
              for (std::size_t n = 0; n < saved.size(); ++n) call->of_kept[n] = saved[n]->whole;
              std::uint64_t numbers = 0;
              if constexpr (!std::is_empty_v<F>)
                if (ctx.replay || ctx.check) numbers = hash_of_numbers(f);
              record_call(call, out, in, saved, numbers);
            },
            kept);
      },
      outputs);
  if constexpr (any_tensor<std::remove_cvref_t<decltype(result::made(r))>>)
    return std::get<0>(outputs);
  else
    return outputs;
}

}  // namespace detail

/// A function of tensors with a backward of its own: f.forward(x, ...), recorded as one entry whose backward is f.vjp.
///
///   struct gate {
///     static constexpr std::string_view name = "gate";
///     template <class X>
///     auto forward(const X& x, const X& g) const {
///       const X s = sigmoid(g);
///       return std::pair(x * s, std::tuple(x, s));  // the output, and what vjp reads
///     }
///     template <class G, class X>
///     auto vjp(const G& dy, const X& x, const X& s) const {
///       return std::tuple(dy * s, dy * x * s * (1.0 - s));  // of x, of g
///     }
///   };
///   const auto y = custom_gradient(gate{}, x, g);
///
/// forward gives back a tensor, or a std::tuple of several, which the call gives back; alone, or in a std::pair with
/// the tensors that vjp reads, inputs and outputs among them if they are named. vjp takes the gradient of each output
/// of floating elements, zeros of one that nobody used, and then what was kept; it gives back the gradient of the one
/// floating input, or a std::tuple of theirs. Both run with nothing recorded. Shape: as forward says; a gradient's as
/// its input's, which is checked when it runs. Placement: as forward says; a gradient is X::gradient_type, which is
/// checked when it compiles. f's members are numbers. Throws weft::failure for gradients of other extents, and where
/// what was kept was written to since.
template <class F, any_tensor... Xs>
requires(sizeof...(Xs) > 0) auto custom_gradient(const F& f, const Xs&... xs) {
  if constexpr (detail::custom_forward<F, Xs...>::ok) {
    const auto run = [&] {
      detail::require_one_context(F::name, {&untyped(xs)...});
      context& ctx = *std::get<0>(std::tie(untyped(xs)...)).ctx;
      detail::give_formula<F>(ctx);
      if (ctx.replay) ctx.replay->given(detail::hash_of_numbers(f));
      const recording off(ctx, nullptr);
      return f.forward(xs...);
    };
    using made = detail::custom_result<decltype(run())>;
    if constexpr (detail::custom_backward<F, decltype(run()), Xs...>::check())
      return detail::custom_outputs(f, run(), xs...);
    else if constexpr (made::ok)
      return std::remove_cvref_t<decltype(made::made(run()))>();
  }
}

}  // namespace weft
