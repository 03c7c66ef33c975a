// Elements of a dimension by index: take<seq>(x, ids). Linear in x: takes pending sums.
// Invariant: the dimension is whole on every rank, so an index means the same on all of them.
#pragma once

#include <weft/op/formula.hpp>

namespace weft {
namespace detail {

// What kernels do here, over runs of elements; offsets are x's, the ids' and the output's.
using take_offsets = std::array<std::int64_t, 3>;

/// y = x at the ids; 0 for an id that isn't one of the `count`.
template <class T>
struct take_elements {
  const T* x;
  const std::int32_t* ids;
  T* y;
  std::int64_t along, count;  // x's stride in the dimension, and its elements

  WEFT_ANYWHERE void operator()(std::int64_t n, const take_offsets& begin, const take_offsets& step) const {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t id = ids[begin[1] + i * step[1]];
      y[begin[2] + i * step[2]] = id >= 0 && id < count ? x[begin[0] + i * step[0] + id * along] : T{};
    }
  }
};
/// dx at the ids += dy, for elements of dimensions that x has; those that ids alone have are gone through here, in
/// order, since several of them may name one element of x.
template <class T>
struct take_gradients {
  const std::int32_t* ids;
  const T* dy;
  double* dx;
  std::int64_t along, count;
  int ndim = 0;
  std::int64_t extent[max_ndim] = {}, of_ids[max_ndim] = {}, of_y[max_ndim] = {};

  WEFT_ANYWHERE void operator()(std::int64_t n, const take_offsets& begin, const take_offsets& step) const {
    if (ndim == 0 || step[2] == 1) return add(n, begin, step);
    for (std::int64_t i = 0; i < n; ++i)  // the ids' own dimensions lie closer together
      add(1, {begin[0] + i * step[0], begin[1] + i * step[1], begin[2] + i * step[2]}, step);
  }

 private:
  WEFT_ANYWHERE void add(std::int64_t n, const take_offsets& begin, const take_offsets& step) const {
    std::int64_t index[max_ndim] = {}, at_ids = begin[1], at_y = begin[2], left = 1;
    for (int d = 0; d < ndim; ++d) left *= extent[d];
    for (; left > 0; --left) {
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t id = ids[at_ids + i * step[1]];
        if (id >= 0 && id < count)
          dx[begin[0] + i * step[0] + id * along] += static_cast<double>(dy[at_y + i * step[2]]);
      }
      for (int d = ndim - 1; d >= 0; --d) {
        at_ids += of_ids[d], at_y += of_y[d];
        if (++index[d] < extent[d]) break;
        at_ids -= index[d] * of_ids[d], at_y -= index[d] * of_y[d];
        index[d] = 0;
      }
    }
  }
};

template <class Backend, class T>
struct take_operator {
  struct attributes {
    shape in, valid;                                                // x's; the output's without padding
    std::int64_t of_x[max_ndim], of_ids[max_ndim], of_y[max_ndim];  // strides in the output's order
    std::int64_t along, count;                                      // x's stride in the dimension, and its elements
    bool in_x[max_ndim];                                            // whether a dimension of the output is x's
  };

  static value forward(const value& x, const value& ids, int dim, const broadcast_map& map, const shape& valid);
  // Added up in double, however many ids name one element.
  static void vjp(context& ctx, tape_node& node) {
    if constexpr (floating<T>) {
      const auto at = node.template get<attributes>();
      local_array g = ctx.make(dtype::f64, at.in);
      auto& queue = ctx.queue<Backend>();
      Backend::zero(queue, g);
      take_gradients<T> add{node.saved(0).template as<const std::int32_t>(),
                            node.output_gradient().template as<const T>(), g.as<double>(), at.along, at.count};
      int ndim = 0;
      std::int64_t extents[max_ndim], of_x[max_ndim], of_ids[max_ndim], of_y[max_ndim];
      for (int d = 0; d < at.valid.ndim; ++d)
        if (at.in_x[d]) {
          extents[ndim] = at.valid[d], of_x[ndim] = at.of_x[d], of_ids[ndim] = at.of_ids[d], of_y[ndim] = at.of_y[d];
          ++ndim;
        } else {
          add.extent[add.ndim] = at.valid[d], add.of_ids[add.ndim] = at.of_ids[d], add.of_y[add.ndim] = at.of_y[d];
          ++add.ndim;
        }
      const std::array<const std::int64_t*, 3> strides{of_x, of_ids, of_y};
      Backend::each_row(queue, ndim, extents, strides, add);
      using A = accumulate_t<T>;
      local_array sums = g;
      if constexpr (!std::same_as<A, double>) {
        sums = ctx.make(dtype_of<A>, at.in);
        Backend::convert(queue, g.elements(), g.as<double>(), sums.as<A>(), false);
        g = {};
      }
      contribute<Backend, T, A>(ctx, node, 0, sums);
    }
  }
};

template <class Backend, class T>
value take_operator<Backend, T>::forward(const value& x, const value& ids, int dim, const broadcast_map& map,
                                         const shape& valid) {
  context& ctx = *x.ctx;
  shape out, whole;
  attributes at{x.held().shape, valid, {}, {}, {}, x.held().shape.elements(dim + 1), x.held().shape[dim], {}};
  for (int d = 0; d < map.ndim; ++d) {
    at.in_x[d] = map.at[0][d] >= 0;
    const value& from = at.in_x[d] ? x : ids;
    const int place = at.in_x[d] ? map.at[0][d] : map.at[1][d];
    out.push_back(from.sizes()[place]), whole.push_back(from.whole[place]);
  }
  broadcast_strides(map, 0, x.held().shape, at.of_x);
  broadcast_strides(map, 1, ids.held().shape, at.of_ids);
  row_major(out, at.of_y);
  return operate<T>(
      {"take", floating<T> ? vjp : nullptr, 0, computed_by(dim, map)}, &ctx, whole, out, {&x, &ids},
      [&](const local_array& y) {
        const std::array<const std::int64_t*, 3> strides{at.of_x, at.of_ids, at.of_y};
        Backend::each_row(
            ctx.queue<Backend>(), valid.ndim, valid.extent, strides,
            take_elements<T>{x.held().template as<const T>(), ids.held().template as<const std::int32_t>(),
                             y.template as<T>(), at.along, at.count});
      },
      [&](tape_node& node) { node.set(at), node.save(ids); });
}

/// X's dimensions with those of I that X lacks in D's place.
template <class X, class D, class I>
struct taken_dims;
template <class... Es, class D, class I>
struct taken_dims<dims<Es...>, D, I>
    : concat<dims<>, std::conditional_t<std::same_as<tag_of<Es>, D>, dims_missing<I, dims<Es...>>, dims<Es>>...> {};

/// For each dimension of Out: its position in x and in ids, or -1.
template <class Out, class X, class I>
constexpr broadcast_map taken_map() {
  broadcast_map m;
  [&]<class... Es>(dims<Es...>) {
    ((m.at[0][m.ndim] = static_cast<std::int8_t>(X::template index<tag_of<Es>>),
      m.at[1][m.ndim] = static_cast<std::int8_t>(I::template index<tag_of<Es>>), ++m.ndim),
     ...);
  }(Out{});
  return m;
}

/// Throws unless every index of this rank's is one of dimension D's n: here, or where the queue is waited for next, and
/// then nothing was taken.
template <dimension D, any_tensor I>
void require_indices(const I& ids, std::int64_t n) {
  using B = typename I::backend;
  const local_array seen = with_padding<B>(*untyped(ids).ctx, untyped(ids).held(), valid_part(ids));
  if constexpr (runs_host_functions<B>())
    B::once(untyped(ids).ctx->template queue<B>(),
            [id = seen.template as<const std::int32_t>(), count = seen.elements(), n] {
              for (std::int64_t i = 0; i < count; ++i)
                require(id[i] >= 0 && id[i] < n, "take<", D::name, ">(x, ids): the index ", id[i],
                        " is outside of dimension ", D::name, ", whose ", n, " elements count from 0");
            });
}

}  // namespace detail

/// The elements of x at the indices `ids` along D: y[..., ids, ...]. ids: int32, of any dimensions but D; those that x
/// has as well are gone through together (as PyTorch's gather), the others come in D's place (as its index_select).
/// Placement, on each axis: as x * ids; x may be a pending sum, ids may not; x is whole along D: all_gather<axis>(x) it
/// first (embedding(ids, table) takes a table whose rows are sharded). Invariant x is promoted. Gradient of x: the sum
/// over all that was taken of an element. Throws weft::failure when shared extents differ, and for an index outside
/// of D; on a device that isn't looked at, and 0 is taken. Padding is left out. Cost: a copy; of the gradient, a sum in
/// double over the ids' own dimensions for each element of x's others.
template <dimension D, any_tensor X, any_tensor I>
auto take(const X& x, const I& ids, call_site at = call_site::here()) {
  using lacks = detail::lacked<dims_of<X>, D>;
  static_assert(detail::none<lacks>, "weft: take<dim>(x, ids) names a dimension that x lacks");
  constexpr bool indices = std::same_as<typename I::element_type, std::int32_t> && !dims_of<I>::template has<D>;
  static_assert(!detail::none<lacks> || indices,
                "weft: take<dim>(x, ids) takes ids of int32, of other dimensions than the one that they count in: "
                "rename<from, to>(ids)");
  static_assert(detail::none<pending_in<layout_of<I>>>,
                "weft: take<dim>(x, ids) can't look up pending sums: all_reduce<axis>(ids) them first");
  constexpr bool whole = shard_axes<layout_of<X>, D>::size == 0;
  static_assert(whole,
                "weft: take<dim>(x, ids) needs the dimension whole on every rank, since ids count in all of it: "
                "all_gather<axis>(x) it first, or embedding(ids, x) for a table whose rows are sharded");
  if constexpr (dims_of<X>::template has<D> && indices && !has_partial<layout_of<I>> && whole) {
    using B = typename X::backend;
    static_assert(detail::runs_formulas<B>,
                  "weft: take<dim>(x, ids) is a loop that its tensor's backend lacks: each_row");
    using numbers = basic_tensor<float, dims_without<dims_of<X>, D>, layout_of<X>, B>;
    using rule = detail::pair_rule<detail::pairing::product, numbers,
                                   basic_tensor<float, dims_of<I>, layout_of<I>, typename I::backend>>;
    if constexpr (rule::ok) {
      using out = typename detail::taken_dims<dims_of<X>, D, dims_of<I>>::type;
      using result = basic_tensor<typename X::element_type, out, typename rule::layout, B>;
      detail::require_one_context("take", {&untyped(x), &untyped(ids)});
      detail::check_shared_extents(x, ids);
      detail::require_indices<D>(ids, x.template global_extent<D>());
      detail::compare_operand<typename rule::layout>(ids, "take", at);
      static constexpr auto map = detail::taken_map<out, dims_of<X>, dims_of<I>>();
      const shape of_x = detail::valid_part(x), of_ids = detail::valid_part(ids);
      shape valid;
      for (int d = 0; d < map.ndim; ++d) valid.push_back(map.at[0][d] >= 0 ? of_x[map.at[0][d]] : of_ids[map.at[1][d]]);
      return result(detail::take_operator<B, typename X::element_type>::forward(
          detail::promoted<typename rule::layout>(x, "take", at), untyped(ids), dims_of<X>::template index<D>, map,
          valid));
    }
  }
}

}  // namespace weft
