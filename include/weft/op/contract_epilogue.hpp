// What follows a contraction, computed with it: a bias, and gelu. Invariant: a bias is part of one operator, whose
// output is the sum; gelu is recorded as the operator that it is, and where something may run again it is computed as
// one too, so that a second run's bits are the first's.
#pragma once

#include <weft/op/broadcast.hpp>
#include <weft/op/contract_engine.hpp>
#include <weft/op/elementwise.hpp>

namespace weft::detail {

/// Whether a vector lies along the output's last dimensions, so that every row of a product gets the same one.
inline bool is_along_rows(const broadcast_map& m, int which) {
  int own = 0;
  for (int d = 0; d < m.ndim; ++d) {
    if (m.at[which][d] < 0 && own > 0) return false;
    if (m.at[which][d] >= 0 && m.at[which][d] != own++) return false;
  }
  return own > 0;
}

/// y = sum over labels of a b, + bias. Operands 0 and 1 of the map are the output, 2 is the bias.
template <class Backend, class T>
struct biased_contraction {
  using product = contraction<Backend, T>;
  struct attributes {
    typename product::attributes of_product;
    broadcast_map map;
  };

  /// Gelu: of that. Its kernels are asked for there alone.
  template <bool Gelu>
  static value forward(const value& a, const value& b, const value& bias, const contraction_labels& labels,
                       const shape& valid_a, const shape& valid_b, const broadcast_map& map);

 private:
  using gelu_operator = unary_operator<Backend, T>;
  static constexpr typename gelu_operator::kernels gelu_kernels{
      Backend::template apply<unary::gelu, T>, Backend::template apply_backward<unary::gelu, T>, unary::gelu};

  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    product::vjp_of(ctx, node, at.of_product);
    if (node.input(2))
      give_operand<Backend, T>(ctx, node, 2, at.map, at.of_product.shapes[2], at.of_product.valid_part(2),
                               node.output_gradient());
  }
  static operation what(const attributes& at) {
    return {"contract", vjp,
            product::operations(at.of_product) + static_cast<double>(at.of_product.shapes[2].elements()),
            computed_by(at.of_product.labels, at.map)};
  }
  static void keep(tape_node& node, const attributes& at, const value& a, const value& b) {
    node.set(at), node.save_for(1, a), node.save_for(0, b);
  }
  // h, and where Gelu is set y, gelu of it: what the product's own pass doesn't do is done after it.
  template <bool Gelu>
  static void run(context& ctx, const attributes& at, const value& a, const value& b, const local_array& bias, T* h,
                  T* y) {
    typename Backend::queue& queue = ctx.queue<Backend>();
    const shape& out = at.of_product.shapes[2];
    const bool along = is_along_rows(at.map, 2);
    const matmul_epilogue after{bias.data, Gelu ? h : nullptr};
    const T *p = a.held().template as<T>(), *q = b.held().template as<T>();
    if (along && product::run_with(ctx, at.of_product, p, q, Gelu ? y : h, {after, bias.elements()})) return;
    product::template run<T>(ctx, at.of_product, {0, 1, 2}, p, q, h, false);
    std::int64_t of_out[max_ndim], of_bias[max_ndim];
    row_major(out, of_out), broadcast_strides(at.map, 2, bias.shape, of_bias);
    Backend::apply(queue, binary::add, out.ndim, out.extent, h, of_out, bias.template as<T>(), of_bias, h);
    if constexpr (Gelu) gelu_kernels.apply(queue, out.elements(), h, y);
  }
};

template <class Backend, class T>
template <bool Gelu>
value biased_contraction<Backend, T>::forward(const value& a, const value& b, const value& bias,
                                              const contraction_labels& labels, const shape& valid_a,
                                              const shape& valid_b, const broadcast_map& map) {
  context& ctx = *a.ctx;
  shape whole;
  const attributes at{product::plan(a, b, labels, valid_a, valid_b, whole), map};
  const shape& local = at.of_product.shapes[2];
  const auto biased = [&] {
    return operate<T>(
        what(at), a.ctx, whole, local, {&a, &b, &bias},
        [&](const local_array& y) { run<false>(ctx, at, a, b, bias.held(), y.template as<T>(), nullptr); },
        [&](tape_node& node) { keep(node, at, a, b); });
  };
  if constexpr (!Gelu) {
    return biased();
  } else {
    if (ctx.replay) return gelu_operator::forward(biased(), gelu_kernels);
    value h{a.ctx, whole, ctx.make(dtype_of<T>, local), {}}, y{a.ctx, whole, ctx.make(dtype_of<T>, local), {}};
    run<true>(ctx, at, a, b, bias.held(), h.data.template as<T>(), y.data.template as<T>());
    if (tape_node* const node = record(what(at), h, {&a, &b, &bias})) keep(*node, at, a, b);
    if (tape_node* const node = record(gelu_operator::what(h, gelu_kernels), y, {&h}))
      gelu_operator::keep(*node, h, gelu_kernels);
    return y;
  }
}

}  // namespace weft::detail
