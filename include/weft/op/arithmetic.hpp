// Sums, differences, products and quotients of two tensors, broadcast by the names of their dimensions.
// Invariant: out's dimensions are a's, then those of b that a lacks; the order in which b has them doesn't matter.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/op/broadcast.hpp>
#include <weft/op/pair_rule.hpp>

namespace weft {
namespace detail {

template <class Backend, class T>
struct binary_operator {
  struct attributes {
    binary f;
    broadcast_map map;
    shape out, valid;  // of the output
  };

  static value forward(const value& a, const value& b, binary f, const broadcast_map& map, const shape& valid_a,
                       const shape& valid_b, double number = 0);

 private:
  template <class, class>
  friend struct binary_operator;
  // y = f(p, q), p and q being seen as operand 0 or 1 of the map, or as the output itself (2).
  static void pair(context& ctx, binary f, const attributes& at, const local_array& p, int as_p, const local_array& q,
                   int as_q, const local_array& y) {
    if (p.shape == at.out && q.shape == at.out && in_order(at.map, as_p) && in_order(at.map, as_q)) {
      Backend::apply(ctx.queue<Backend>(), f, y.elements(), p.template as<T>(), q.template as<T>(), y.template as<T>());
      return;
    }
    std::int64_t sp[max_ndim], sq[max_ndim];
    strides_for(at, as_p, p.shape, sp);
    strides_for(at, as_q, q.shape, sq);
    Backend::apply(ctx.queue<Backend>(), f, at.map.ndim, at.out.extent, p.template as<T>(), sp, q.template as<T>(), sq,
                   y.template as<T>());
  }
  static bool in_order(const broadcast_map& m, int which) { return which == 2 || straight(m, which); }
  static void strides_for(const attributes& at, int which, const shape& s, std::int64_t* out) {
    if (which < 2) return broadcast_strides(at.map, which, s, out);
    row_major(at.out, out);
  }

 public:
  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    const local_array& dy = node.output_gradient();
    const bool product = at.f == binary::multiply, quotient = at.f == binary::divide;
    if (node.input(0)) {
      local_array g = dy;
      if (product || quotient) {
        g = ctx.make(dtype_of<T>, at.out);
        pair(ctx, at.f, at, dy, 2, node.saved(1), 1, g);
      }
      give_operand<Backend, T>(ctx, node, 0, at.map, at.out, at.valid, g);
    }
    if (node.input(1)) {
      local_array g = dy;
      if (product || quotient) g = ctx.make(dtype_of<T>, at.out);
      if (product) pair(ctx, binary::multiply, at, dy, 2, node.saved(0), 0, g);
      if (quotient) divisor_gradient(ctx, at, dy, node.saved(0), node.saved(1), g);
      if (at.f == binary::subtract) {
        g = ctx.make(dtype_of<T>, at.out);
        Backend::scale(ctx.queue<Backend>(), g.elements(), -1.0, dy.template as<T>(), g.template as<T>(), false);
      }
      give_operand<Backend, T>(ctx, node, 1, at.map, at.out, at.valid, g);
    }
  }

 private:
  // d(a/b)/db = -dy / b * (a / b), in accumulate_t<T>: of no other order are the parts so seldom beyond a type that
  // holds the whole.
  static void divisor_gradient(context& ctx, const attributes& at, const local_array& dy, const local_array& a,
                               const local_array& b, const local_array& to) {
    using A = accumulate_t<T>;
    const auto as_sums = [&](const local_array& x) {
      if constexpr (std::same_as<A, T>) return x;
      const local_array wide = ctx.make(dtype_of<A>, x.shape);
      add_converted<Backend, A, T>(ctx, x, wide, false);
      return wide;
    };
    using in_sums = binary_operator<Backend, A>;
    const typename in_sums::attributes how{at.f, at.map, at.out, at.valid};
    const local_array divisor = as_sums(b), ratio = ctx.make(dtype_of<A>, at.out), g = ctx.make(dtype_of<A>, at.out);
    in_sums::pair(ctx, binary::divide, how, as_sums(a), 0, divisor, 1, ratio);
    in_sums::pair(ctx, binary::divide, how, as_sums(dy), 2, divisor, 1, g);
    in_sums::pair(ctx, binary::multiply, how, g, 2, ratio, 2, g);
    Backend::scale(ctx.queue<Backend>(), g.elements(), -1.0, g.template as<A>(), g.template as<A>(), false);
    add_converted<Backend, T, A>(ctx, g, to, false);
  }
};

template <class Backend, class T>
value binary_operator<Backend, T>::forward(const value& a, const value& b, binary f, const broadcast_map& map,
                                           const shape& valid_a, const shape& valid_b, double number) {
  context& ctx = *a.ctx;
  attributes at{f, map, {}, {}};
  shape whole;
  for (int d = 0; d < map.ndim; ++d) {
    const bool of_a = map.at[0][d] >= 0;
    const int from = of_a ? map.at[0][d] : map.at[1][d];
    at.out.push_back((of_a ? a : b).sizes()[from]);
    at.valid.push_back((of_a ? valid_a : valid_b)[from]);
    whole.push_back((of_a ? a : b).whole[from]);
  }
  return operate<T>(
      {name_of(f), vjp, static_cast<double>(at.out.elements()), computed_by(f, number, map)}, a.ctx, whole, at.out,
      {&a, &b}, [&](const local_array& y) { pair(ctx, f, at, a.held(), 0, b.held(), 1, y); },
      [&](tape_node& node) {
        node.set(at);
        if (f == binary::multiply) node.save_for(1, a), node.save_for(0, b);
        if (f == binary::divide) node.save_for(1, a), node.save(b);
      });
}

template <pairing M, binary F, any_tensor A, any_tensor B>
auto two_sided(const A& a, const B& b) {
  if constexpr (none<integers_in<A, B>>) {
    using rule = pair_rule<M, A, B>;
    if constexpr (rule::ok) {
      check_shared_extents(a, b);
      using result =
          basic_tensor<typename A::element_type, dims_concat<dims_of<A>, dims_missing<dims_of<B>, dims_of<A>>>,
                       typename rule::layout, typename A::backend>;
      static constexpr auto map = broadcast_of<dims_of<A>, dims_of<B>>();
      return result(binary_operator<typename A::backend, typename A::element_type>::forward(
          promoted<typename rule::layout>(a, name_of(F)), promoted<typename rule::layout>(b, name_of(F)), F, map,
          valid_part(a), valid_part(b)));
    }
  }
}

}  // namespace detail

/// a + b, broadcast by name. Placement, on each axis: both partial or neither; a dimension both have is sharded on both
/// sides or on neither. Throws weft::failure when shared extents differ. Cost, of the four: an operation an element of
/// the output.
template <any_tensor A, any_tensor B>
auto operator+(const A& a, const B& b) {
  static_assert(detail::none<integers_in<A, B>>, "weft: a + b takes floating elements: cast<float>(x) the integers");
  return detail::two_sided<detail::pairing::sum, binary::add>(a, b);
}
/// a - b; as a + b.
template <any_tensor A, any_tensor B>
auto operator-(const A& a, const B& b) {
  static_assert(detail::none<integers_in<A, B>>, "weft: a - b takes floating elements: cast<float>(x) the integers");
  return detail::two_sided<detail::pairing::sum, binary::subtract>(a, b);
}
/// a * b, element by element. Placement as a + b, but one side may be partial where the other is whole, and not both.
template <any_tensor A, any_tensor B>
auto operator*(const A& a, const B& b) {
  static_assert(detail::none<integers_in<A, B>>,
                "weft: a * b takes floating elements: cast<float>(x) the integers, or where(mask, a, b) with a mask");
  return detail::two_sided<detail::pairing::product, binary::multiply>(a, b);
}
/// a / b, element by element: linear in a only, so b may not be partial.
template <any_tensor A, any_tensor B>
auto operator/(const A& a, const B& b) {
  static_assert(detail::none<pending_in<layout_of<B>>>,
                "weft: a quotient is not linear in its divisor: all_reduce<axis> the pending divisor first");
  static_assert(detail::none<integers_in<A, B>>, "weft: a / b takes floating elements: cast<float>(x) the integers");
  return detail::two_sided<detail::pairing::product, binary::divide>(a, b);
}

}  // namespace weft
