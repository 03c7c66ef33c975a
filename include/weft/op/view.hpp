// Other views of the same numbers: slice, permute, rename, cast. Linear: all of them take pending sums.
// Invariant: nothing moves between ranks, and a view's gradient is kept in the type of what it views: a weight's main
// gradient. Cost: a copy each (rename: none); no operations.
#pragma once

#include <weft/autograd/operate.hpp>
#include <weft/core/refusal.hpp>
#include <weft/op/move.hpp>
#include <weft/op/placed.hpp>

namespace weft {
namespace detail {

template <class Backend, class T>
struct slice_operator {
  struct attributes {
    int dim;
    std::int64_t begin;
    shape in;
  };
  // The part of `whole` that the slice is, as an array with whole's strides.
  static local_array part(const local_array& whole, const attributes& at) {
    local_array out = whole;
    out.data = static_cast<std::byte*>(whole.data) +
               at.begin * at.in.elements(at.dim + 1) * static_cast<std::int64_t>(size_of(whole.type));
    return out;
  }
  static value forward(const value& x, int dim, std::int64_t begin, std::int64_t count);
  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    const slot* const x = node.input(0).get();
    if (!x) return;
    const local_array& dy = node.output_gradient();
    std::int64_t packed[max_ndim], there[max_ndim];
    row_major(dy.shape, packed);
    row_major(at.in, there);
    const auto put = [&](const local_array& from, const local_array& whole) {
      Backend::copy(ctx.queue<Backend>(), at.in.ndim, dy.shape.extent, from, packed, part(whole, at), there);
    };
    if (x->has_gradient && x->type == dy.type) {  // the rest of it stays
      const local_array whole = target<Backend>(ctx, node, 0).to, sum = ctx.make(dy.type, dy.shape);
      Backend::copy(ctx.queue<Backend>(), at.in.ndim, dy.shape.extent, part(whole, at), there, sum, packed);
      (x->add_main ? x->add_main : add_converted<Backend, T, T>)(ctx, dy, sum, true);
      return put(sum, whole);
    }
    const local_array dx = ctx.make(dy.type, at.in);
    Backend::zero(ctx.queue<Backend>(), dx);
    put(dy, dx);
    contribute<Backend, T>(ctx, node, 0, dx);
  }
};

template <class Backend, class T>
value slice_operator<Backend, T>::forward(const value& x, int dim, std::int64_t begin, std::int64_t count) {
  context& ctx = *x.ctx;
  const attributes at{dim, begin, x.held().shape};
  shape s = at.in, whole = x.whole;
  s[dim] = whole[dim] = count;
  return operate<T>(
      {"slice", vjp, 0, computed_by(begin)}, x.ctx, whole, s, {&x},
      [&](const local_array& y) {
        std::int64_t from[max_ndim], to[max_ndim];
        row_major(at.in, from);
        row_major(s, to);
        Backend::copy(ctx.queue<Backend>(), s.ndim, s.extent, part(x.held(), at), from, y, to);
      },
      [&](tape_node& node) { node.set(at), node.output->keep_as(*x.slot); });
}

template <class Backend, class T>
struct permute_operator {
  struct attributes {
    std::int8_t from[max_ndim];  // position in x of each dimension of y
    shape in;
  };
  static void turn(context& ctx, const attributes& at, const local_array& x, const local_array& y, bool back) {
    std::int64_t in[max_ndim], of_x[max_ndim], of_y[max_ndim];
    shape out;
    for (int d = 0; d < at.in.ndim; ++d) out.push_back(at.in[at.from[d]]);
    row_major(at.in, in);
    row_major(out, of_y);
    for (int d = 0; d < at.in.ndim; ++d) of_x[d] = in[at.from[d]];
    Backend::copy(ctx.queue<Backend>(), out.ndim, out.extent, x, back ? of_y : of_x, y, back ? of_x : of_y);
  }
  static value forward(const value& x, attributes at);
  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    local_array dx = ctx.make(node.output_gradient().type, at.in);
    turn(ctx, at, node.output_gradient(), dx, true);
    contribute<Backend, T>(ctx, node, 0, dx);
  }
};

template <class Backend, class T>
value permute_operator<Backend, T>::forward(const value& x, typename permute_operator<Backend, T>::attributes at) {
  context& ctx = *x.ctx;
  at.in = x.held().shape;
  shape out, whole;
  for (int d = 0; d < at.in.ndim; ++d) out.push_back(at.in[at.from[d]]), whole.push_back(x.whole[at.from[d]]);
  return operate<T>(
      {"permute", vjp, 0, computed_by(at.from)}, x.ctx, whole, out, {&x},
      [&](const local_array& y) { turn(ctx, at, x.held(), y, false); },
      [&](tape_node& node) { node.set(at), node.output->keep_as(*x.slot); });
}

template <class Backend, class To, class From>
struct cast_operator {
  static value forward(const value& x);
  static void vjp(context& ctx, tape_node& node) {
    const slot* x = node.input(0).get();
    if (!x) return;
    if (x->type == dtype_of<From> || x->type == dtype_of<To>)
      contribute<Backend, From, To>(ctx, node, 0, node.output_gradient());
    else if (x->type == dtype::f64)
      back_as<double>(ctx, node);  // main gradients of a third type
    else if (x->type == dtype::f32)
      back_as<float>(ctx, node);
    else
      back_as<From>(ctx, node);
  }
  template <class G>
  static void back_as(context& ctx, tape_node& node) {
    local_array dx = ctx.make(dtype_of<G>, node.output_gradient().shape);
    add_converted<Backend, G, To>(ctx, node.output_gradient(), dx, false);
    contribute<Backend, From, G>(ctx, node, 0, dx);
  }
};

template <class Backend, class To, class From>
value cast_operator<Backend, To, From>::forward(const value& x) {
  return operate_like<To>(
      x, {"cast", vjp}, {&x},
      [&](const local_array& y) {
        Backend::convert(x.ctx->queue<Backend>(), y.elements(), x.held().template as<From>(), y.template as<To>(),
                         false);
      },
      [](tape_node&) {});
}

template <class L, class From, class To>
struct renamed_layout;
template <class... Ps, class From, class To>
struct renamed_layout<layout<Ps...>, From, To> {
  template <class P>
  struct one {
    using type = P;
  };
  template <class... As>
  struct one<shard<From, As...>> {
    using type = shard<To, As...>;
  };
  using type = typename insert_all<layout<>, typename one<Ps>::type...>::type;
};
// Dims D with the extent of Tag known at run time only.
template <class D, class Tag>
struct without_static;
template <class... Es, class Tag>
struct without_static<dims<Es...>, Tag> {
  using type = dims<std::conditional_t<std::same_as<tag_of<Es>, Tag>, Tag, Es>...>;
};

// The entry of dims D (with its static extent, if any) that has tag Tag.
template <class D, class Tag, std::int64_t N = D::static_extents[D::template index<Tag>]>
using entry_for = std::conditional_t<N == dynamic_extent, Tag, extent<Tag, N == dynamic_extent ? 1 : N>>;

}  // namespace detail

/// Elements begin ... begin+count-1 of dimension D, which has to be whole on every rank. Backward: zeros elsewhere.
template <dimension D, any_tensor X>
auto slice(const X& x, std::int64_t begin, std::int64_t count) {
  using in = dims_of<X>;
  using lacks = detail::lacked<in, D>;
  static_assert(detail::none<lacks>,
                "weft: slice<dim>(x, begin, count) names a dimension that x lacks: name one of x's");
  constexpr bool whole = shard_axes<layout_of<X>, D>::size == 0;
  static_assert(whole, "weft: slice<dim>(x) needs the dimension whole on every rank: all_gather<axis> it first");
  if constexpr (detail::none<lacks> && whole) {
    const std::int64_t n = untyped(x).sizes()[in::template index<D>];
    require(begin >= 0 && count > 0 && count <= n && begin <= n - count, "slice of dimension ", D::name, " from ",
            begin, " with ", count, " elements lies outside its ", n);
    using out = typename detail::without_static<in, D>::type;
    return basic_tensor<typename X::element_type, out, layout_of<X>, typename X::backend>(
        detail::slice_operator<typename X::backend, typename X::element_type>::forward(
            untyped(x), in::template index<D>, begin, count));
  }
}

/// The same tensor with its dimensions in the given order.
template <dimension... Ds, any_tensor X>
auto permute(const X& x) {
  constexpr bool each_once = sizeof...(Ds) == dims_of<X>::ndim && (dims_of<X>::template has<Ds> && ...) &&
                             detail::none<detail::repeated<Ds...>>;
  static_assert(each_once, "weft: permute<dim...>(x) names every dimension of x once");
  if constexpr (each_once) {
    using out = dims<detail::entry_for<dims_of<X>, Ds>...>;
    using engine = detail::permute_operator<typename X::backend, typename X::element_type>;
    typename engine::attributes at{};
    int d = 0;
    ((at.from[d++] = static_cast<std::int8_t>(dims_of<X>::template index<Ds>)), ...);
    return basic_tensor<typename X::element_type, out, layout_of<X>, typename X::backend>(
        engine::forward(untyped(x), at));
  }
}

/// The same tensor with dimension From called To. Costs nothing.
template <dimension From, dimension To, any_tensor X>
auto rename(const X& x) {
  using lacks = detail::lacked<dims_of<X>, From>;
  static_assert(detail::none<lacks>, "weft: rename<from, to>(x) names a dimension that x lacks");
  constexpr bool free = std::same_as<From, To> || !dims_of<X>::template has<To>;
  static_assert(free, "weft: rename<from, to>(x) gives a name that another dimension of x has: give one that none has");
  if constexpr (detail::none<lacks> && free)
    return basic_tensor<typename X::element_type, dims_renamed<dims_of<X>, From, To>,
                        typename detail::renamed_layout<layout_of<X>, From, To>::type, typename X::backend>(untyped(x));
}

/// The same numbers, as a constant: no gradient goes through. Shape and placement as x, any placement, pending sums
/// too: a gradient of nothing is the dual of each. Costs nothing; a parameter, whose memory moves, is copied, and
/// asking it for a gradient of its own gives it memory of its own.
template <any_tensor X>
X detach(const X& x) {
  value y = untyped(x);
  y.slot = {};
  y.shares_memory = true, y.gradient_of = 0;
  if (untyped(x).slot && untyped(x).slot->live)
    y.data = detail::copy_of<typename X::backend>(*untyped(x).ctx, untyped(x).held());
  return X(y);
}

/// The same numbers in a floating type, rounded to nearest. Backward: the gradient in x's type; integers have none.
template <class To, any_tensor X>
auto cast(const X& x) {
  constexpr bool known = floating<To>;
  static_assert(
      known,
      "weft: cast<T>(x) makes floating elements, of float, double, bf16 or fp16; a mask is made by a > b, ids "
      "by from_global");
  if constexpr (known) {
    using result = basic_tensor<To, dims_of<X>, layout_of<X>, typename X::backend>;
    if constexpr (std::same_as<To, typename X::element_type>)
      return x;
    else
      return result(detail::cast_operator<typename X::backend, To, typename X::element_type>::forward(untyped(x)));
  }
}

}  // namespace weft
