// A residual stream with a block's output added, and a norm of that, which the next block reads: h = x + r, norm(h),
// computed in one pass ("fused add and norm" elsewhere). Invariant: it is recorded as the two operators that it is, so
// gradients, what a backward keeps, recomputation and every bit are those of x + r and a norm; h is computed once.
#pragma once

#include <tuple>

#include <weft/op/arithmetic.hpp>
#include <weft/op/layer_norm.hpp>
#include <weft/op/rms_norm.hpp>

namespace weft {
namespace detail {

template <class Backend, class T>
struct add_norm_operator {
  using A = accumulate_t<T>;
  using sum = binary_operator<Backend, T>;
  /// h and y, of x's sizes.
  struct result {
    value h, y;
  };

  static result rms_norm(const value& x, const value& r, const value& weight, double eps, const broadcast_map& map,
                         const shape& valid);
  static result layer_norm(const value& x, const value& r, const value& weight, const value& bias, double eps,
                           const broadcast_map& map, const shape& valid);

 private:
  // both(): h and y; alone(): y of the h that is there. Each makes what the norm's backward needs beside.
  static void record(const value& x, const value& r, const broadcast_map& map, const shape& valid, result& out,
                     const operate_step& norm, function_ref<void()> both, function_ref<void()> alone) {
    const binary f = binary::add;
    const double number = 0;
    const typename sum::attributes at{f, map, x.held().shape, valid};
    const operation add{name_of(f), sum::vjp, static_cast<double>(at.out.elements()), computed_by(f, number, map)};
    const auto keep = [&](tape_node& node) { node.set(at); };
    operate_both(x, {add, {&x, &r}, out.h, {}, keep}, norm, [&](bool wants_h, bool wants_y) {
      if (wants_h && wants_y) return both();
      if (wants_y) return alone();
      Backend::apply(x.ctx->queue<Backend>(), f, at.out.elements(), x.held().template as<T>(),
                     r.held().template as<T>(), out.h.data.template as<T>());
    });
  }
};

template <class Backend, class T>
auto add_norm_operator<Backend, T>::rms_norm(const value& x, const value& r, const value& weight, double eps,
                                             const broadcast_map& map, const shape& valid) -> result {
  using norm = rms_norm_operator<Backend, T>;
  result out;
  local_array rstd;
  const operation what = norm::what(x, eps);
  const std::int64_t width = x.held().shape[x.held().shape.ndim - 1], rows = x.held().elements() / width;
  const auto make = [&] { rstd = x.ctx->make(dtype_of<A>, {1, {rows}}); };
  const auto keep = [&](tape_node& node) { norm::keep(node, out.h, weight, rstd, valid); };
  record(
      x, r, map, valid, out, {what, {&out.h, &weight}, out.y, {&rstd}, keep},
      [&] {
        make();
        Backend::add_rms_norm(x.ctx->queue<Backend>(), rows, width, eps, x.held().template as<T>(),
                              r.held().template as<T>(), weight.held().template as<T>(), out.h.data.template as<T>(),
                              out.y.data.template as<T>(), rstd.as<A>());
      },
      [&] {
        make();
        Backend::rms_norm(x.ctx->queue<Backend>(), rows, width, eps, out.h.data.template as<T>(),
                          weight.held().template as<T>(), out.y.data.template as<T>(), rstd.as<A>());
      });
  return out;
}

template <class Backend, class T>
auto add_norm_operator<Backend, T>::layer_norm(const value& x, const value& r, const value& weight, const value& bias,
                                               double eps, const broadcast_map& map, const shape& valid) -> result {
  using norm = layer_norm_operator<Backend, T>;
  result out;
  local_array mean, rstd;
  const operation what = norm::what(x, eps);
  const std::int64_t width = x.held().shape[x.held().shape.ndim - 1], rows = x.held().elements() / width;
  const auto make = [&] { mean = x.ctx->make(dtype::f64, {1, {rows}}), rstd = x.ctx->make(dtype_of<A>, {1, {rows}}); };
  const auto keep = [&](tape_node& node) { norm::keep(node, out.h, weight, mean, rstd, valid); };
  record(
      x, r, map, valid, out, {what, {&out.h, &weight, &bias}, out.y, {&mean, &rstd}, keep},
      [&] {
        make();
        Backend::add_layer_norm(x.ctx->queue<Backend>(), rows, width, eps, x.held().template as<T>(),
                                r.held().template as<T>(), weight.held().template as<T>(), bias.held().template as<T>(),
                                out.h.data.template as<T>(), out.y.data.template as<T>(), mean.as<double>(),
                                rstd.as<A>());
      },
      [&] {
        make();
        Backend::layer_norm(x.ctx->queue<Backend>(), rows, width, eps, out.h.data.template as<T>(),
                            weight.held().template as<T>(), bias.held().template as<T>(), out.y.data.template as<T>(),
                            mean.as<double>(), rstd.as<A>());
      });
  return out;
}

/// Whether a stream of X and a block's output of R are added without one being broadcast or promoted; where not, a
/// sentence says so. Asked: whether the norm takes the rest, so that no second sentence is said.
template <any_tensor X, any_tensor R, bool Asked>
struct adds_alike {
  static constexpr bool ok = false;
};
template <any_tensor X, any_tensor R>
requires(pair_rule<pairing::sum, X, R>::ok) struct adds_alike<X, R, true> {
  static constexpr bool ok = std::same_as<dims_of<X>, dims_of<R>> && std::same_as<layout_of<X>, layout_of<R>>;
  static_assert(ok,
                "weft: a norm with residual adds two tensors of the same dimensions and placement, the stream and "
                "what a block adds to it: convert one of them, or write h = x + r and the norm of h");
};

}  // namespace detail

/// h = x + r and y = rms_norm(h, weight, eps), as the tuple (h, y), in one pass over memory: of a residual stream x and
/// what a block adds to it, r. Shape: x and r [..., d], weight [d], h and y as x. Placement: x and r alike, d whole,
/// nothing partial; h is placed as x, y as rms_norm's output. Bits, gradients and what is kept are those of the two
/// operators; throws as they do. Where h has to be promoted for y it is computed by the two. Cost: as theirs, less a
/// read of h.
template <any_tensor X, any_tensor R, any_tensor W>
auto add_rms_norm(const X& x, const R& r, const W& weight, double eps = 1e-5, call_site at = call_site::here()) {
  if constexpr (detail::adds_alike<X, R, detail::rms_norm_takes<X, W>::ok>::ok) {
    using sum = detail::pair_rule<detail::pairing::sum, X, R>;
    using rule = detail::pair_rule<detail::pairing::product, X, W>;
    if constexpr (rule::ok) {
      using T = typename X::element_type;
      using backend = typename X::backend;
      if constexpr (!detail::promoted_axes<typename rule::layout, X>.empty()) {
        auto h = x + r;
        auto y = rms_norm(h, weight, eps, at);
        return std::tuple(std::move(h), std::move(y));
      } else {
        detail::check_shared_extents(x, r), detail::check_shared_extents(x, weight);
        detail::require_eps("add_rms_norm", eps);
        static constexpr auto map = detail::broadcast_of<dims_of<X>, dims_of<R>>();
        auto out = detail::add_norm_operator<backend, T>::rms_norm(
            detail::promoted<typename sum::layout>(x, "add_rms_norm", at),
            detail::promoted<typename sum::layout>(r, "add_rms_norm", at),
            detail::promoted<typename rule::layout>(weight, "add_rms_norm", at), eps, map, detail::valid_part(x));
        return std::tuple(basic_tensor<T, dims_of<X>, typename sum::layout, backend>(std::move(out.h)),
                          basic_tensor<T, dims_of<X>, typename rule::layout, backend>(std::move(out.y)));
      }
    }
  }
}

/// As add_rms_norm, with y = layer_norm(h, weight, bias, eps). Shape: bias [d].
template <any_tensor X, any_tensor R, any_tensor W, any_tensor B>
auto add_layer_norm(const X& x, const R& r, const W& weight, const B& bias, double eps = 1e-5,
                    call_site at = call_site::here()) {
  if constexpr (detail::adds_alike<X, R, detail::layer_norm_takes<X, W, B>::ok>::ok) {
    using sum = detail::pair_rule<detail::pairing::sum, X, R>;
    using scaled = detail::pair_rule<detail::pairing::product, X, W>;
    if constexpr (scaled::ok) {
      using T = typename X::element_type;
      using backend = typename X::backend;
      using product = basic_tensor<T, dims_of<X>, typename scaled::layout, backend>;
      using rule = detail::pair_rule<detail::pairing::sum, product, B>;
      if constexpr (rule::ok) {
        if constexpr (!detail::promoted_axes<typename rule::layout, X>.empty()) {
          auto h = x + r;
          auto y = layer_norm(h, weight, bias, eps, at);
          return std::tuple(std::move(h), std::move(y));
        } else {
          detail::check_shared_extents(x, r);
          detail::check_shared_extents(x, weight), detail::check_shared_extents(x, bias);
          detail::require_eps("add_layer_norm", eps);
          static constexpr auto map = detail::broadcast_of<dims_of<X>, dims_of<R>>();
          auto out = detail::add_norm_operator<backend, T>::layer_norm(
              detail::promoted<typename sum::layout>(x, "add_layer_norm", at),
              detail::promoted<typename sum::layout>(r, "add_layer_norm", at),
              detail::promoted<typename rule::layout>(weight, "add_layer_norm", at),
              detail::promoted<typename rule::layout>(bias, "add_layer_norm", at), eps, map, detail::valid_part(x));
          return std::tuple(basic_tensor<T, dims_of<X>, typename sum::layout, backend>(std::move(out.h)),
                            basic_tensor<T, dims_of<X>, typename rule::layout, backend>(std::move(out.y)));
        }
      }
    }
  }
}

// A dimension is not said, as it is for softmax: the weight's is normalised.
template <dimension D, class... Xs>
detail::refused_call add_rms_norm(const Xs&...) {
  static_assert(detail::none<tag_list<D>>,
                "weft: add_rms_norm(x, r, weight) takes its dimension from its weight: leave out the dimension in <>");
  return {};
}
template <dimension D, class... Xs>
detail::refused_call add_layer_norm(const Xs&...) {
  static_assert(
      detail::none<tag_list<D>>,
      "weft: add_layer_norm(x, r, weight, bias) takes its dimension from its weight: leave out the dimension in <>");
  return {};
}

}  // namespace weft
