// Sums, differences, products and quotients of two tensors, broadcast by the names of their dimensions.
// Invariant: out's dimensions are a's, then those of b that a lacks; the order in which b has them doesn't matter.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/op/meet.hpp>

namespace weft {
namespace detail {

/// For each dimension of the outcome: its position in a and in b, or -1.
struct broadcast_map {
  std::int8_t ndim = 0;
  std::int8_t at[2][max_ndim] = {};
};

template <class DA, class DB>
constexpr broadcast_map broadcast_of() {
  broadcast_map m;
  [&]<class... Es>(dims<Es...>) {
    static_assert(sizeof...(Es) <= max_ndim, "weft: more than 8 dimensions in one operator");
    ((m.at[0][m.ndim] = static_cast<std::int8_t>(DA::template index<tag_of<Es>>),
      m.at[1][m.ndim] = static_cast<std::int8_t>(DB::template index<tag_of<Es>>), ++m.ndim),
     ...);
  }(dims_concat<DA, dims_missing<DB, DA>>{});
  return m;
}

// Strides of operand `which` in the order of the outcome, 0 where it is broadcast.
inline void broadcast_strides(const broadcast_map& m, int which, const shape& operand, std::int64_t* out) {
  std::int64_t own[max_ndim], stride = 1;
  for (int d = operand.ndim - 1; d >= 0; --d) own[d] = std::exchange(stride, stride * operand[d]);
  for (int d = 0; d < m.ndim; ++d) out[d] = m.at[which][d] < 0 ? 0 : own[m.at[which][d]];
}

template <class Backend, class T>
struct binary_operator {
  struct attributes {
    binary f;
    broadcast_map map;
    shape out, a, b, valid;  // valid: of the outcome
  };

  static value forward(const value& a, const value& b, binary f, const broadcast_map& map, const shape& valid_a,
                       const shape& valid_b) {
    context& ctx = *a.ctx;
    attributes at{f, map, {}, a.held().shape, b.held().shape, {}};
    shape whole;
    for (int d = 0; d < map.ndim; ++d) {
      const bool of_a = map.at[0][d] >= 0;
      const int from = of_a ? map.at[0][d] : map.at[1][d];
      at.out.push_back((of_a ? at.a : at.b)[from]);
      at.valid.push_back((of_a ? valid_a : valid_b)[from]);
      whole.push_back((of_a ? a : b).whole[from]);
    }
    value y{a.ctx, whole, {}, {}};
    if (!recalled(ctx, "binary", y.data)) {
      y.data = ctx.make(dtype_of<T>, at.out);
      pair(ctx, f, at, a.held(), 0, b.held(), 1, y.data);
      computed(ctx, {"binary", static_cast<double>(at.out.elements())}, {&y.data}, a, b);
    }
    if (tape_node* node = record("binary", y, vjp, a, b)) {
      node->set(at);
      if (f == binary::multiply || f == binary::divide) {
        node->save(a);
        node->save(b);
      }
    }
    return y;
  }

 private:
  // y = f(p, q), p and q being seen as operand 0 or 1 of the map, or as the outcome itself (2).
  static void pair(context& ctx, binary f, const attributes& at, const array& p, int as_p, const array& q, int as_q,
                   const array& y) {
    if (p.shape == at.out && q.shape == at.out && straight(at.map, as_p) && straight(at.map, as_q)) {
      Backend::apply(ctx.queue<Backend>(), f, y.elements(), p.template as<T>(), q.template as<T>(), y.template as<T>());
      return;
    }
    std::int64_t sp[max_ndim], sq[max_ndim];
    strides_for(at, as_p, p.shape, sp);
    strides_for(at, as_q, q.shape, sq);
    Backend::apply(ctx.queue<Backend>(), f, at.map.ndim, at.out.extent, p.template as<T>(), sp, q.template as<T>(), sq,
                   y.template as<T>());
  }
  static bool straight(const broadcast_map& m, int which) {
    if (which < 2)
      for (int d = 0; d < m.ndim; ++d)
        if (m.at[which][d] != d) return false;
    return true;
  }
  static void strides_for(const attributes& at, int which, const shape& s, std::int64_t* out) {
    if (which < 2) return broadcast_strides(at.map, which, s, out);
    std::int64_t stride = 1;
    for (int d = at.out.ndim - 1; d >= 0; --d) out[d] = std::exchange(stride, stride * at.out[d]);
  }

  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    const array& dy = node.output_gradient();
    const bool product = at.f == binary::multiply, quotient = at.f == binary::divide;
    if (node.input(0)) {
      if (product || quotient) {
        array g = ctx.make(dtype_of<T>, at.out);
        pair(ctx, at.f, at, dy, 2, node.saved(1), 1, g);
        give(ctx, node, 0, at, g);
      } else {
        give(ctx, node, 0, at, dy);
      }
    }
    if (node.input(1)) {
      array g = dy;
      if (product || quotient) {
        g = ctx.make(dtype_of<T>, at.out);
        pair(ctx, binary::multiply, at, dy, 2, node.saved(0), 0, g);
      }
      if (quotient) {  // d(a/b)/db = -a / b^2
        pair(ctx, binary::divide, at, g, 2, node.saved(1), 1, g);
        pair(ctx, binary::divide, at, g, 2, node.saved(1), 1, g);
      }
      if (quotient || at.f == binary::subtract) {
        array negative = ctx.make(dtype_of<T>, at.out);
        Backend::scale(ctx.queue<Backend>(), g.elements(), -1.0, g.template as<T>(), negative.template as<T>(), false);
        g = negative;
      }
      give(ctx, node, 1, at, g);
    }
  }

  // Sums g over the dimensions in which input i was broadcast, and puts the rest in the input's order.
  static void give(context& ctx, tape_node& node, int i, const attributes& at, const array& g) {
    if constexpr (sizeof(T) == 2)
      if (node.input(i)->type == dtype::f32) return give_as<float>(ctx, node, i, at, g);  // main gradients (of biases)
    give_as<T>(ctx, node, i, at, g);
  }
  template <class G>
  static void give_as(context& ctx, tape_node& node, int i, const attributes& at, const array& g) {
    const shape& own = i == 0 ? at.a : at.b;
    if (own == at.out && straight(at.map, i)) return contribute<Backend, T>(ctx, node, i, g);
    bool reduced[max_ndim];
    shape kept;
    int order[max_ndim], n = 0;
    bool in_order = true;
    for (int d = 0; d < at.map.ndim; ++d) {
      reduced[d] = at.map.at[i][d] < 0;
      if (reduced[d]) continue;
      kept.push_back(at.out[d]);
      order[n] = at.map.at[i][d];
      in_order = in_order && order[n] == n;
      ++n;
    }
    array sum = ctx.make(dtype_of<G>, kept);
    const array addends = with_padding<Backend>(ctx, g, at.valid);
    Backend::template reduce_dims<reduce::sum>(ctx.queue<Backend>(), at.map.ndim, at.out.extent, reduced,
                                               addends.template as<T>(), sum.template as<G>(), false);
    if (in_order) return contribute<Backend, T, G>(ctx, node, i, sum);
    array turned = ctx.make(dtype_of<G>, own);
    std::int64_t from[max_ndim], to[max_ndim], own_stride[max_ndim], stride = 1;
    for (int d = own.ndim - 1; d >= 0; --d) own_stride[d] = std::exchange(stride, stride * own[d]);
    stride = 1;
    for (int d = n - 1; d >= 0; --d) {
      from[d] = std::exchange(stride, stride * kept[d]);
      to[d] = own_stride[order[d]];
    }
    Backend::copy(ctx.queue<Backend>(), n, kept.extent, sum, from, turned, to);
    contribute<Backend, T, G>(ctx, node, i, turned);
  }
};

template <meeting M, binary F, any_tensor A, any_tensor B>
auto two_sided(const A& a, const B& b) {
  using rule = met<M, A, B>;
  if constexpr (rule::ok) {
    check_shared_extents(a, b);
    using result = basic_tensor<typename A::element_type, dims_concat<dims_of<A>, dims_missing<dims_of<B>, dims_of<A>>>,
                                typename rule::layout, typename A::backend>;
    static constexpr auto map = broadcast_of<dims_of<A>, dims_of<B>>();
    return result(binary_operator<typename A::backend, typename A::element_type>::forward(
        promoted<typename rule::layout>(a), promoted<typename rule::layout>(b), F, map, valid_part(a), valid_part(b)));
  }
}

}  // namespace detail

/// a + b, broadcast by name. Placement, on each axis: both partial or neither; a dimension both have is sharded on both
/// sides or on neither. Throws weft::error when shared extents differ. Cost, of the four: an operation an element of
/// the outcome.
template <any_tensor A, any_tensor B>
auto operator+(const A& a, const B& b) {
  return detail::two_sided<detail::meeting::sum, binary::add>(a, b);
}
/// a - b; as a + b.
template <any_tensor A, any_tensor B>
auto operator-(const A& a, const B& b) {
  return detail::two_sided<detail::meeting::sum, binary::subtract>(a, b);
}
/// a * b, element by element. Placement as a + b, but one side may be partial where the other is whole, and not both.
template <any_tensor A, any_tensor B>
auto operator*(const A& a, const B& b) {
  return detail::two_sided<detail::meeting::product, binary::multiply>(a, b);
}
/// a / b, element by element: linear in a only, so b may not be partial.
template <any_tensor A, any_tensor B>
auto operator/(const A& a, const B& b) {
  static_assert(!has_partial<layout_of<B>>,
                "weft: a quotient is not linear in its divisor: all_reduce<axis> the pending divisor first");
  return detail::two_sided<detail::meeting::product, binary::divide>(a, b);
}

}  // namespace weft
