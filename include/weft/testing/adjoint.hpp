// Laws of conversions, and of any linear function of one tensor: the backward is the forward's transpose, and a
// conversion keeps the value. Needs no test framework.
// Invariant: inner products are over all ranks as the placements say, padding holds NaN, and a law whose numbers are
// all zero is reported.
#pragma once

#include <weft/testing/laws.hpp>

namespace weft::testing {

namespace detail {

/// Any numbers on each rank, as far as the placement allows: the same along the axes on which X is whole.
template <class X>
X any_numbers(context& ctx, const shape& global, std::uint64_t salt) {
  std::uint64_t where = 0;
  for (const axis_group& g : ctx.axes())
    where = where * 100 + (same_on_all(kind_on<X>(g.axis)) ? 0 : static_cast<std::uint64_t>(g.index));
  const philox numbers{salt, where};
  const X x = weft::detail::empty_tensor<X>(ctx, global);
  using T = typename X::element_type;
  weft::detail::write_by_host<typename X::backend, T>(ctx, untyped(x).data, [&](T* out) {
    for (std::int64_t i = 0; i < x.local_elements(); ++i) out[i] = direction(numbers, i);
  });
  detail::poison_padding(x);
  return x;
}

/// <x, y> of a value and a gradient, and the sum of its terms' magnitudes: one addend a rank, counted once along the
/// axes on which both are whole.
template <class X, class Y>
std::pair<double, double> inner(context& ctx, const X& x, const Y& y) {
  static_assert(std::same_as<layout_of<Y>, dual_layout<layout_of<X>>>);
  double total = 0, magnitude = 0;
  const auto a = detail::without_padding(x);
  const auto b = detail::without_padding(y);
  for (std::size_t i = 0; counts<X>(ctx) && i < a.size(); ++i) {
    const double term = a[i] * b[i];
    total += term, magnitude += std::abs(term);
  }
  return {detail::world_sum(ctx, total), detail::world_sum(ctx, magnitude)};
}

template <class X>
shape drawn_shape(const extents& at) {
  shape out;
  [&]<class... Es>(dims<Es...>) { (out.push_back(at.of(tag_of<Es>{})), ...); }(dims_of<X>{});
  return out;
}

/// <A x, y> = <x, A'y> on this mesh, and ranks that should hold the same of the output and of the gradient do.
template <class X, class F>
void adjoint_on(context& ctx, const extents& at, const F& f) {
  X x = any_numbers<X>(ctx, drawn_shape<X>(at), 1);
  x.requires_grad();
  const auto y = f(x);
  require_equal_copies(ctx, y, "output");
  using G = typename std::remove_const_t<decltype(y)>::gradient_type;
  const G dy = any_numbers<G>(ctx, untyped(y).whole, 2);
  untyped(y).slot->gradient = untyped(dy).data;
  untyped(y).slot->has_gradient = true;
  if (untyped(y).slot != untyped(x).slot)
    ctx.tape->backward(ctx);  // a promotion along axes of one rank is not recorded
  const auto dx = x.grad();
  const auto [forward, size] = inner(ctx, y, dy);
  const auto [back, size_back] = inner(ctx, x, dx);
  // Sums of the same products of numbers below 1, in another order.
  require(std::abs(forward - back) <= 1e-12 * (1 + size + size_back), "<Ax, y> is ", digits(forward),
          " and <x, A'y> is ", digits(back), ": the backward is not the transpose of the forward");
  require(size > 0, "every product is zero, so nothing was tested");
  require_equal_copies(ctx, dx, "gradient");
}

/// f(x) holds the numbers of x, wherever they are now.
template <class X, class F>
void same_value_on(context& ctx, const extents& at, const F& f) {
  const no_grad off(ctx);
  const auto y = f(input<X>(ctx, at, 0, 0, false));
  using Y = std::remove_const_t<decltype(y)>;
  static_assert(std::same_as<dims_of<X>, dims_of<Y>>,
                "weft: a conversion keeps the tensor's dimensions; a linear function that doesn't is tried by "
                "check_adjoint");
  const philox numbers{7, 0};
  const auto want = filled<whole<Y>>(ctx, at, [&](std::int64_t i) { return number(numbers, i, false); });
  const auto done = finished(y);
  require(untyped(done).sizes() == untyped(want).sizes(),
          "a rank's share of the output has another size than such a tensor's");
  const auto a = detail::without_padding(done), b = detail::without_padding(want);
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double got = a[i], expected = b[i];
    // A pending sum has up to 8 addends below 2.
    require(std::abs(got - expected) <= 1e-13, "element ", i, " of rank ", ctx.rank().here(), " is ", digits(got),
            " after the conversion, and was ", digits(expected));
  }
}

/// Runs body(ctx, extents) on every mesh, extents drawn anew; throws with what was wrong on each.
inline void on_every_mesh(const char* what, const std::vector<drawn_dimension>& dims, const options& o,
                          const mesh_trials& on, const std::function<void(context&, const extents&)>& body) {
  std::string wrong;
  const std::size_t stride = static_cast<std::size_t>(o.every);
  for (std::size_t i = stream_of(what) % stride % on.meshes.size(); i < on.meshes.size(); i += stride) try {
      const extents at = draw(what, dims, o, on.meshes[i], i);
      on.run(on.meshes[i], [&](context& ctx) { body(ctx, at); });
    } catch (const failure& e) {
      wrong += where(what, on.meshes[i]) + e.what() + "\n";
    }
  require(wrong.empty(), wrong);
}

template <class S, class X>
std::function<void(const char*, options, const std::function<void(context&, const extents&)>&)> linear_law() {
  static_assert(std::same_as<typename X::element_type, double>,
                "weft: the laws of conversions take a tensor of doubles, since they tell rounding from a mistake");
  static_assert(placed_within<typename S::mesh, X>,
                "weft: a law's tensor is placed along an axis that the law's mesh lacks, where it would have one rank: "
                "name the mesh first, check_adjoint<strategy<mesh<rows>>, tensor<...>>");
  return [](const char* what, options o, const std::function<void(context&, const extents&)>& body) {
    std::vector<drawn_dimension> dims;  // what f shards isn't known, so every dimension is drawn for all ranks
    std::vector<axis_id> all(S::mesh::ids, S::mesh::ids + S::mesh::ndim);
    [&]<class... Es>(weft::dims<Es...>) { (dims.push_back({tag_of<Es>{}, all}), ...); }(dims_of<X>{});
    on_every_mesh(what, dims, o, trials_of<S>(), body);
  };
}

}  // namespace detail

/// Throws weft::failure, a line for each mesh, unless f, a linear function of a tensor of doubles, and its backward are
/// adjoint: <f(x), y> = <x, f'(y)> with inner products over all ranks, for any x and y; and ranks that by their types
/// hold the same do. Ranks are threads along dp and tp, or, with a strategy before X, its communicator's along its
/// axes.
///
///   testing::check_adjoint<tensor<double, dims<seq>, shard<seq, tp>>>(
///       "shift", [](const auto& x) { return shift<tp>(x); }, {.even = {seq{}}});
template <law_strategy S, any_tensor X, class F>
void check_adjoint(const char* what, const F& f, options o = {}) {
  detail::linear_law<S, X>()(what, o, [&](context& ctx, const extents& at) { detail::adjoint_on<X>(ctx, at, f); });
}
template <any_tensor X, class F>
void check_adjoint(const char* what, const F& f, options o = {}) {
  check_adjoint<usual_strategy, X, F>(what, f, o);
}

/// As check_adjoint, and f(x) is x in another placement: the whole has the same value, padding apart.
///
///   testing::check_conversion<strategy<mesh<rows>>, tensor<double, dims<batch, hidden>, shard<batch, rows>>>(
///       "gather", [](const auto& x) { return all_gather<rows>(x); });
template <law_strategy S, any_tensor X, class F>
void check_conversion(const char* what, const F& f, options o = {}) {
  detail::linear_law<S, X>()(what, o, [&](context& ctx, const extents& at) {
    detail::same_value_on<X>(ctx, at, f);
    detail::adjoint_on<X>(ctx, at, f);
  });
}
template <any_tensor X, class F>
void check_conversion(const char* what, const F& f, options o = {}) {
  check_conversion<usual_strategy, X, F>(what, f, o);
}

}  // namespace weft::testing
