// A formula as an operator on values: the loops over its operands, forward and backward, and what the tape keeps.
// Invariant: only elements that aren't padding are met; the formula computes in accumulate_t of its operands' type.
#pragma once

#include <bit>
#include <cmath>
#include <tuple>

#include <weft/core/anywhere.hpp>
#include <weft/op/broadcast.hpp>
#include <weft/op/formula_numbers.hpp>
#include <weft/op/formula_vjp.hpp>

namespace weft {

namespace detail {

/// Whether what a backend's kernels call may be any function of the host's, which throws or takes memory; not so where
/// Backend::runs_host_functions is false, as on a device.
template <class Backend>
constexpr bool runs_host_functions() {
  if constexpr (requires { Backend::runs_host_functions; }) return Backend::runs_host_functions;
  return true;
}

template <class T>
constexpr number_for<T> number_from(T x) {
  return static_cast<number_for<T>>(x);
}
/// The one floating type among the operands', or void.
template <class... Ts>
struct floating_among {
  using type = void;
};
template <class T, class... Ts>
struct floating_among<T, Ts...> : floating_among<Ts...> {};
template <floating T, class... Ts>
struct floating_among<T, Ts...> {
  using type = T;
};
/// The element type of what a formula gives back: that of its floating operands for a floating number, uint8 for bool.
template <class Result, class Floating>
struct element_from_result {
  using type = Result;
};
template <class Floating>
struct element_from_result<bool, Floating> {
  using type = std::uint8_t;
};
template <class Result, class Floating>
requires(std::is_floating_point_v<Result> && !std::is_void_v<Floating>) struct element_from_result<Result, Floating> {
  using type = Floating;
};

template <class N>
constexpr std::array<N, 1> as_gradients(N g) {
  return {g};
}
template <class N, std::size_t Count>
constexpr const std::array<N, Count>& as_gradients(const std::array<N, Count>& g) {
  return g;
}

// The kernels that call a formula, for the host and for a device, where they can call what is marked so alone.
namespace on_host {
#define WEFT_DETAIL_SIDE
#include <weft/op/formula_kernels.inl>
#undef WEFT_DETAIL_SIDE
}  // namespace on_host
#if defined(__CUDACC__)
namespace on_device {
#define WEFT_DETAIL_SIDE WEFT_ON_DEVICE
#include <weft/op/formula_kernels.inl>
#undef WEFT_DETAIL_SIDE
}  // namespace on_device
#else
namespace on_device = on_host;
#endif
template <bool OnHost>
struct formula_kernels {
  template <class F, class Out>
  using value = on_host::formula_value<F, Out>;
  template <vjp_form Form, class F, class Floating, class Out, std::size_t Inputs>
  using gradient = on_host::formula_gradient<Form, F, Floating, Out, Inputs>;
  template <class Body, class Pointers>
  using run = on_host::formula_run<Body, Pointers>;
};
template <>
struct formula_kernels<false> {
  template <class F, class Out>
  using value = on_device::formula_value<F, Out>;
  template <vjp_form Form, class F, class Floating, class Out, std::size_t Inputs>
  using gradient = on_device::formula_gradient<Form, F, Floating, Out, Inputs>;
  template <class Body, class Pointers>
  using run = on_device::formula_run<Body, Pointers>;
};

/// Floating: void where there is none, and then there is no gradient either.
template <class Backend, class F, class Out, class Floating, vjp_form Form, class... Ts>
struct formula_operator {
  static constexpr std::size_t inputs = sizeof...(Ts);
  using every = std::make_index_sequence<inputs>;
  using read_back = std::conditional_t<Form == vjp_form::of_gradient, std::index_sequence<>,
                                       std::conditional_t<Form == vjp_form::of_given, given_numbers<number_for<Ts>...>,
                                                          every>>;  // the operands whose numbers the vjp reads
  using kernels = formula_kernels<runs_host_functions<Backend>()>;
  struct attributes {
    F formula;
    broadcast_map map;
    shape out, valid;  // of the output
  };

  static value forward(const F& f, const broadcast_map& map, const shape& valid, const std::array<value, inputs>& x) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      context& ctx = *x[0].ctx;
      attributes at{f, map, {}, valid};
      shape whole;
      for (int d = 0; d < map.ndim; ++d) {
        const auto operand = static_cast<std::size_t>(operand_with(map, d));
        const int from = map.at[operand][d];
        at.out.push_back(x[operand].sizes()[from]), whole.push_back(x[operand].whole[from]);
      }
      give_formula<F>(ctx);
      return operate<Out>(
          {F::name.data(), Form != vjp_form::none ? vjp : nullptr,
           flops_of<F>() * static_cast<double>(at.out.elements()), with_numbers(f, computed_by(map))},
          &ctx, whole, at.out, {&x[I]...},
          [&](const local_array& y) {
            each(every{}, ctx, at, std::array<const local_array*, inputs>{&x[I].held()...},
                 typename kernels::template value<F, Out>{f, y.template as<Out>()});
          },
          [&](tape_node& node, const value& y) {
            if constexpr (Form != vjp_form::none) {
              node.set(at);
              [&]<std::size_t... K>(std::index_sequence<K...>) { (node.save(x[K]), ...); }
              (read_back{});
              if constexpr (Form == vjp_form::of_all) node.save(y.data);
            }
          });
    }
    (every{});
  }

 private:
  // Calls body(index in the output, elements of operands I...) wherever the output isn't padding. x: these operands.
  template <std::size_t... I, class Body>
  static void each(std::index_sequence<I...>, context& ctx, const attributes& at,
                   const std::array<const local_array*, sizeof...(I)>& x, const Body& body) {
    static constexpr std::size_t count = sizeof...(I);
    using pointers = std::tuple<const std::tuple_element_t<I, std::tuple<Ts...>>*...>;
    [&]<std::size_t... K>(std::index_sequence<K...>) {
      std::int64_t of_x[count + 1][max_ndim], of_y[max_ndim];
      row_major(at.out, of_y);
      (broadcast_strides(at.map, int(I), x[K]->shape, of_x[K]), ...);
      const std::array<const std::int64_t*, count + 1> strides{of_x[K]..., of_y};
      const pointers from{x[K]->template as<std::remove_pointer_t<std::tuple_element_t<K, pointers>>>()...};
      Backend::each_row(ctx.queue<Backend>(), at.map.ndim, at.valid.extent, strides,
                        typename kernels::template run<Body, pointers>{body, from});
    }
    (std::make_index_sequence<count>{});
  }

  static void vjp(context& ctx, tape_node& node) {
    if constexpr (Form != vjp_form::none) {
      const auto at = node.template get<attributes>();
      std::array<local_array, inputs> g;
      for (std::size_t i = 0; i < inputs; ++i)
        if (node.input(int(i))) g[i] = ctx.make(dtype_of<Floating>, at.out);
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        const auto x = [&]<std::size_t... K>(std::index_sequence<K...>) {
          return std::array<const local_array*, sizeof...(K)>{&node.saved(int(K))...};
        }
        (std::make_index_sequence<read_back::size()>{});
        const Out* const y = Form == vjp_form::of_all ? node.saved(inputs).template as<Out>() : nullptr;
        each(read_back{}, ctx, at, x,
             typename kernels::template gradient<Form, F, Floating, Out, inputs>{
                 at.formula, node.output_gradient().template as<Floating>(), y, {g[I].template as<Floating>()...}});
        ((floating<Ts> && g[I] ? give_operand<Backend, Floating>(ctx, node, int(I), at.map, at.out, at.valid, g[I])
                               : void()),
         ...);
      }
      (every{});
    }
  }
};

/// Throws unless the formula is as linear as it says on some numbers of this size. Where it makes no number of them
/// (sqrt of a negative one), or throws, that proves nothing.
template <class F, linearity L, class... Ts>
void require_linear_at(const F& f, double size, double sign) {
  const double u[] = {1.25 * size, sign * 0.5 * size, 2 * size};
  const double v[] = {sign * 3 * size, 0.75 * size, sign * 1.5 * size};
  const auto at = [&](auto&& number) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      try {
        return static_cast<double>(f.forward(static_cast<number_for<Ts>>(floating<Ts> ? number(I) : 1)...));
      } catch (...) {
        return std::numeric_limits<double>::quiet_NaN();
      }
    }
    (std::index_sequence_for<Ts...>{});
  };
  const auto adds = [&](auto&& left, auto&& right, auto&& both) {
    const double a = at(left), b = at(right), sum = at(both);
    const bool judged = std::isfinite(a) && std::isfinite(b) && std::isfinite(sum);
    require(!judged || std::abs(a + b - sum) <= 1e-5 * (std::abs(a) + std::abs(b) + std::abs(sum)), "the formula ",
            std::string_view(F::name), " says that it is linear, and is not: it makes ", a, " and ", b,
            " of two numbers, and ", sum, " of their sum; leave out 'linear', and all_reduce<axis> what is pending");
  };
  if (L == linearity::joint)
    adds([&](std::size_t i) { return u[i]; }, [&](std::size_t i) { return v[i]; },
         [&](std::size_t i) { return u[i] + v[i]; });
  else
    for (std::size_t of = 0; of < (L == linearity::first ? 1 : sizeof...(Ts)); ++of)
      adds([&](std::size_t i) { return u[i]; }, [&](std::size_t i) { return i == of ? v[i] : u[i]; },
           [&](std::size_t i) { return i == of ? u[i] + v[i] : u[i]; });
}
/// Tried where a sum is pending, since a formula that isn't linear would count its constant once per rank: on small
/// numbers, which show a small constant, on large ones, which show a bound, and on positive ones alone.
template <class F, linearity L, class... Ts>
void require_linear(const F& f) {
  for (const double size : {1.0, 0x1p-20, 0x1p20})
    for (const double sign : {-1.0, 1.0}) require_linear_at<F, L, Ts...>(f, size, sign);
}

}  // namespace detail
}  // namespace weft
