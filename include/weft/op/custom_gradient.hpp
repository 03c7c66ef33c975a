// Functions of tensors whose backward is written by hand: a struct with forward and vjp, of any number of tensors,
// which gives back one or several. Invariant: nothing in forward is recorded, and each gradient is placed as the dual
// of its input, or the program doesn't compile; so a collective that a backward lacks is found while compiling.
#pragma once

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <weft/op/custom_call.hpp>
#include <weft/op/custom_struct.hpp>
#include <weft/op/formula_numbers.hpp>
#include <weft/tensor/recording.hpp>

namespace weft {
namespace detail {

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
  template <class K>
  static K lent(context& ctx, const shape& whole, const local_array& data) {
    return data ? K(lent_to_vjp(ctx, whole, data)) : K();
  }
  static void run(context& ctx, custom_call& call, tape_node& node) {
    auto& self = static_cast<custom_function&>(call);
    [&]<std::size_t... I, std::size_t... J, std::size_t... K>(std::index_sequence<I...>, std::index_sequence<J...>,
                                                              std::index_sequence<K...>) {
      const auto given = self.f.vjp(gradient<Ys>(ctx, self.of_outputs[J])...,
                                    lent<Ks>(ctx, self.of_kept[K], node.saved(static_cast<int>(K)))...);
      const auto& all = custom_gradients<std::remove_cv_t<decltype(given)>, tag_list<Xs...>>::all(given);
      ((self.of_inputs[I].by = by<Xs, std::remove_cvref_t<decltype(std::get<I>(all))>>,
        self.template give<typename Xs::backend>(ctx, node, I, untyped(std::get<I>(all)))),
       ...);
    }
    (std::index_sequence_for<Xs...>{}, std::index_sequence_for<Ys...>{}, std::index_sequence_for<Ks...>{});
  }
};

inline bool wants_gradient(const value& x) { return x.slot && !x.slot->frozen; }
inline bool any_wants_gradient(std::span<const value* const> inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const value* x) { return wants_gradient(*x); });
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
              if (!ctx.tape || !any_wants_gradient(operands)) return;
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

/// In forward of a custom_gradient: whether a gradient of its input x is asked for. It isn't for a frozen weight, nor
/// for what was computed from none that asks for one. What vjp reads for that gradient alone needn't be kept then: X()
/// stands in its place, and vjp may give back an empty gradient of x.
template <any_tensor X>
bool wants_gradient(const X& x) {
  return detail::wants_gradient(untyped(x));
}
/// In vjp: whether forward kept x, or X() in its place, which can't be read.
template <any_tensor X>
bool was_kept(const X& x) {
  return bool(untyped(x).ctx);
}

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
/// floating input, or a std::tuple of theirs; one that nobody wants (wants_gradient) may be empty. Both run with
/// nothing recorded. Shape: as forward says; a gradient's as its input's, which is checked when it runs. Placement: as
/// forward says; a gradient is X::gradient_type, which is checked when it compiles. f's members are numbers. Throws
/// weft::failure for gradients of other extents, and where what was kept was written to since.
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
