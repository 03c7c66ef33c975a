// Contractions as operators: what one is of, its gradients, which are contractions too, and how its operands are taken.
// Invariant: a backward multiplies what its forward multiplied, as it was taken there.
#pragma once

#include <weft/autograd/operate.hpp>
#include <weft/op/contract_plan.hpp>

namespace weft::detail {

/// What a contraction is: its labels, the extents of a, b and the output on this rank, and without padding.
struct contraction_attributes {
  contraction_labels labels;
  shape shapes[3];
  std::int64_t valid[max_ndim];  // of each label

  /// The extents of a, b or the output without padding.
  shape valid_part(int which) const {
    shape out = shapes[which];
    for (int d = 0; d < out.ndim; ++d) out[d] = valid[labels.of[which][d]];
    return out;
  }
};
/// Which of a, b and the output (0, 1, 2) a product takes as its operands, and which it gives. An output that is
/// taken is its gradient.
struct contraction_order {
  int first, second, out;
};
/// Operands of products as they are; op/contract_float8.hpp has others.
struct exact_operands {
  template <class Contraction, class T, class Out>
  static void run(context& ctx, const contraction_attributes& at, contraction_order o, const T* x, const T* y, Out* z,
                  bool add) {
    Contraction::multiply(ctx, at, o, x, y, z, add);
  }
};

template <class Backend, class T, class Operands = exact_operands>
struct contraction {
  using backend = Backend;
  using attributes = contraction_attributes;
  using order = contraction_order;

  static value forward(const value& a, const value& b, const contraction_labels& labels, const shape& valid_a,
                       const shape& valid_b);
  /// What the product of a and b is, and its global extents.
  static attributes plan(const value& a, const value& b, const contraction_labels& labels, const shape& valid_a,
                         const shape& valid_b, shape& whole);
  // 2 * |out| * |k|: twice the product of all labels' sizes.
  static double operations(const attributes& at) {
    double size[max_ndim], product = 2;
    for (int which = 0; which < 2; ++which)
      for (int d = 0; d < at.labels.ndim[which]; ++d)
        size[at.labels.of[which][d]] = static_cast<double>(at.shapes[which][d]);
    for (int i = 0; i < at.labels.count; ++i) product *= size[i];
    return product;
  }
  template <class Out>
  static void run(context& ctx, const attributes& at, order o, const T* x, const T* y, Out* z, bool add) {
    Operands::template run<contraction>(ctx, at, o, x, y, z, add);
  }
  /// z (+)= x y, of these operands.
  template <class Out>
  static void multiply(context& ctx, const attributes& at, order o, const T* x, const T* y, Out* z, bool add) {
    const contraction_plan plan = planned(at, o);
    if (!plan.empty)
      run_contraction<Backend>(ctx.queue<Backend>(), plan, x, y, z, add);
    else if (!add)
      Backend::zero(ctx.queue<Backend>(), local_array(z, dtype_of<Out>, at.shapes[o.out]));
  }
  /// z = x y and what is after it. False, and nothing done, where that isn't one product of the backend.
  static bool run_with(context& ctx, const attributes& at, const T* x, const T* y, T* z, const product_tail& tail) {
    const contraction_plan plan = planned(at, {0, 1, 2});
    return !plan.empty && run_contraction<Backend>(ctx.queue<Backend>(), plan, x, y, z, false, tail);
  }
  /// Gradients are contractions too: da = dc * b over c's other dimensions, db = a * dc.
  static void vjp_of(context& ctx, tape_node& node, const attributes& at) {
    const T* dc = node.output_gradient().template as<T>();
    if (node.input(0)) into(ctx, node, 0, at, {2, 1, 0}, dc, node.saved(1).template as<T>());
    if (node.input(1)) into(ctx, node, 1, at, {0, 2, 1}, node.saved(0).template as<T>(), dc);
  }

  static contraction_plan planned(const attributes& at, order o) {
    const shape* shapes[3] = {&at.shapes[0], &at.shapes[1], &at.shapes[2]};
    const int which[3] = {o.first, o.second, o.out};
    return {at.labels, at.valid, shapes, which};
  }

 private:
  static void vjp(context& ctx, tape_node& node) { vjp_of(ctx, node, node.template get<attributes>()); }
  static void into(context& ctx, tape_node& node, int input, const attributes& at, order o, const T* x, const T* y) {
    in_gradient_type<T>(node, {input}, [&]<class G>() {
      compute_gradient<Backend, T, G>(ctx, node, input, [&](G* z, bool add) { run(ctx, at, o, x, y, z, add); });
    });
  }
};

template <class Backend, class T, class Operands>
contraction_attributes contraction<Backend, T, Operands>::plan(const value& a, const value& b,
                                                               const contraction_labels& labels, const shape& valid_a,
                                                               const shape& valid_b, shape& whole) {
  attributes at{labels, {a.held().shape, b.held().shape, {}}, {}};
  const shape* const valid[2] = {&valid_a, &valid_b};
  const shape* const wholes[2] = {&a.whole, &b.whole};
  shape& out = at.shapes[2];
  whole.ndim = labels.ndim[2];
  for (int which = 0; which < 2; ++which)
    for (int e = 0; e < labels.ndim[which]; ++e) at.valid[labels.of[which][e]] = (*valid[which])[e];
  for (int d = 0; d < labels.ndim[2]; ++d) {
    for (int which = 0; which < 2; ++which)
      for (int e = 0; e < labels.ndim[which]; ++e)
        if (labels.of[which][e] == labels.of[2][d])
          out.extent[d] = at.shapes[which][e], whole.extent[d] = (*wholes[which])[e];
  }
  out.ndim = labels.ndim[2];
  return at;
}

template <class Backend, class T, class Operands>
value contraction<Backend, T, Operands>::forward(const value& a, const value& b, const contraction_labels& labels,
                                                 const shape& valid_a, const shape& valid_b) {
  context& ctx = *a.ctx;
  shape whole;
  const attributes at = plan(a, b, labels, valid_a, valid_b, whole);
  return operate<T>(
      {"contract", vjp, operations(at), computed_by(labels)}, a.ctx, whole, at.shapes[2], {&a, &b},
      [&](const local_array& c) {
        run<T>(ctx, at, {0, 1, 2}, a.held().template as<T>(), b.held().template as<T>(), c.template as<T>(), false);
      },
      [&](tape_node& node) { node.set(at), node.save_for(1, a), node.save_for(0, b); });
}

}  // namespace weft::detail
