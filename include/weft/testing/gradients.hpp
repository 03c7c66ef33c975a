// A function of tensors as a problem for finite differences; its arguments and output may be placed in any way. The
// types meet here; everything else is in problem.hpp. Invariant: each number used is a function of its global index.
#pragma once

#include <cmath>
#include <tuple>

#include <weft/autograd/backward.hpp>
#include <weft/backend/cpu.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/create.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/to_host.hpp>
#include <weft/testing/problem.hpp>

namespace weft::testing {

namespace detail {

template <class P>
struct if_shard {
  using type = invariant<>;
};
template <class D, class... As>
struct if_shard<shard<D, As...>> {
  using type = shard<D, As...>;
};
template <class L>
struct shards_only;
template <class... Ps>
struct shards_only<layout<Ps...>> {
  using type = place<typename if_shard<Ps>::type...>;
};

/// X, where a sum pending or a replicated value is plainly whole.
template <class X>
using whole =
    basic_tensor<typename X::element_type, dims_of<X>, typename shards_only<layout_of<X>>::type, typename X::backend>;

template <class X>
constexpr holds kind_on_dp = state_on<layout_of<X>, dp>.kind;
template <class X>
constexpr holds kind_on_tp = state_on<layout_of<X>, tp>.kind;

/// The number at a global index: not near zero, so that kinks are not met.
inline double number(const philox& r, std::int64_t i, bool positive) {
  const double size = 0.25 + r.uniform(2 * static_cast<std::uint64_t>(i));
  return positive || r.uniform(2 * static_cast<std::uint64_t>(i) + 1) < 0.5f ? size : -size;
}
inline double direction(const philox& r, std::int64_t i) { return 2.0 * r.uniform(static_cast<std::uint64_t>(i)) - 1; }

template <class X, class F>
X filled(context& ctx, const extents& at, F&& f) {
  return [&]<class... Es>(dims<Es...>) {
    const value made = weft::detail::untyped(
        generate<whole<X>>(ctx, {at.of(tag_of<Es>::name)...}, f));  // X may be pending or replicate
    return X(made);
  }(dims_of<X>{});
}

/// Input number `which` at x + step * v (v alone if `only_direction`). A pending input is split: every rank but
/// the first holds noise, and the first what is missing.
template <class X>
X input(context& ctx, const extents& at, int which, double step, bool positive, bool only_direction = false) {
  const auto stream = static_cast<std::uint64_t>(which) * 1000;
  const philox numbers{7, stream}, directions{8, stream};
  const auto plain = [&](std::int64_t i) {
    return (only_direction ? 0 : number(numbers, i, positive)) + step * direction(directions, i);
  };
  int addends = 1, mine = 0;
  if (kind_on_dp<X> == holds::partial) addends *= ctx.degree<dp>(), mine = ctx.index<dp>();
  if (kind_on_tp<X> == holds::partial) addends *= ctx.degree<tp>(), mine = mine * ctx.degree<tp>() + ctx.index<tp>();
  const auto noise = [&](int r, std::int64_t i) {
    const auto own = stream + 1 + static_cast<std::uint64_t>(r);
    return (only_direction ? 0 : direction({9, own}, i)) + step * direction({10, own}, i);
  };
  const X x = filled<X>(ctx, at, [&](std::int64_t i) {
    if (mine > 0) return noise(mine, i);
    double own = plain(i);
    for (int r = 1; r < addends; ++r) own -= noise(r, i);
    return own;
  });
  poison_padding(x);
  return x;
}

template <class... Xs>
std::tuple<Xs...> inputs(context& ctx, const extents& at, double step, bool positive, bool only_direction = false) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple<Xs...>{input<Xs>(ctx, at, int(I), step, positive, only_direction)...};
  }
  (std::index_sequence_for<Xs...>{});
}

/// y with every axis on which it is replicated made partial, so that a loss made of it counts once.
template <class Y>
auto settled(const Y& y) {
  if constexpr (kind_on_dp<Y> == holds::replicate)
    return settled(convert<partial<dp>>(y));
  else if constexpr (kind_on_tp<Y> == holds::replicate)
    return settled(convert<partial<tp>>(y));
  else
    return y;
}
template <class Y>
auto finished(const Y& y) {
  if constexpr (kind_on_dp<Y> == holds::partial)
    return finished(all_reduce<dp>(y));
  else if constexpr (kind_on_tp<Y> == holds::partial)
    return finished(all_reduce<tp>(y));
  else
    return y;
}

/// A scalar of y: its elements' weighted sum, the weights random.
template <class Y>
auto probe(const Y& y) {
  context& ctx = *y.ctx;
  extents at;
  [&]<class... Es>(dims<Es...>) {
    (at.known.emplace_back(tag_of<Es>::name, y.template global_extent<tag_of<Es>>()), ...);
  }(dims_of<Y>{});
  const auto weights = filled<whole<Y>>(ctx, at, [&](std::int64_t i) { return direction({11, 0}, i); });
  return sum(settled(y) * weights);
}

template <class X>
std::pair<double, double> along(context& ctx, const X& x, const X& v) {
  const auto g = x.grad();
  using G = std::remove_const_t<decltype(g)>;
  static_assert(std::same_as<layout_of<G>, dual_layout<layout_of<X>>> && std::same_as<dims_of<G>, dims_of<X>>);
  const bool whole_on_dp = kind_on_dp<G> == holds::invariant, whole_on_tp = kind_on_tp<G> == holds::invariant;
  if (whole_on_dp || kind_on_dp<G> == holds::replicate)
    require_equal_along(ctx, id_of<dp>, without_padding(g), "gradient");
  if (whole_on_tp || kind_on_tp<G> == holds::replicate)
    require_equal_along(ctx, id_of<tp>, without_padding(g), "gradient");
  std::pair<double, double> total{};
  if ((whole_on_dp && ctx.index<dp>() > 0) || (whole_on_tp && ctx.index<tp>() > 0)) return total;  // counted once
  const local_array slopes = without_padding(g), directions = without_padding(v);
  for (std::int64_t i = 0; i < g.local_elements(); ++i) {
    const double term =
        double(slopes.as<typename X::element_type>()[i]) * double(directions.as<typename X::element_type>()[i]);
    total.first += term;
    total.second += std::abs(term);
  }
  return total;
}

}  // namespace detail

/// The problem of f's value and gradients for inputs of types Xs, to be solved on meshes: see disagreements.
template <any_tensor... Xs, class F>
problem gradient_problem(const char* what, F f, options o = {}) {
  problem p{what, o, {}, {}, {}};
  const auto declare = [&]<class X>() {
    [&]<class... Es>(dims<Es...>) {
      (([&] {
         using axes = shard_axes<layout_of<X>, tag_of<Es>>;
         const problem::dim d{std::string(tag_of<Es>::name), contains<axes, dp>, contains<axes, tp>};
         for (problem::dim& known : p.dims)
           if (known.name == d.name) {
             known.over_dp |= d.over_dp;
             known.over_tp |= d.over_tp;
             return;
           }
         p.dims.push_back(d);
       }()),
       ...);
    }(dims_of<X>{});
  };
  (declare.template operator()<Xs>(), ...);
  const bool positive = o.positive;
  p.at = [f, positive](context& ctx, const extents& at, double step) {
    const recording off(ctx, nullptr);
    const auto xs = detail::inputs<Xs...>(ctx, at, step, positive);
    const auto loss = detail::finished(std::apply([&](const Xs&... x) { return detail::probe(f(x...)); }, xs));
    require_equal_along(ctx, id_of<dp>, loss.held(), "loss");
    require_equal_along(ctx, id_of<tp>, loss.held(), "loss");
    return double(item(loss));
  };
  p.slope = [f, positive](context& ctx, const extents& at) {
    auto xs = detail::inputs<Xs...>(ctx, at, 0, positive);
    const auto vs = detail::inputs<Xs...>(ctx, at, 1, positive, true);
    std::apply([](Xs&... x) { (x.requires_grad(), ...); }, xs);
    backward(std::apply([&](const Xs&... x) { return detail::probe(f(x...)); }, xs));
    require(ctx.tape->size() == 0, "the tape is not empty after backward");
    std::pair<double, double> total{};
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (([&] {
         const auto one = detail::along(ctx, std::get<I>(xs), std::get<I>(vs));
         total.first += one.first;
         total.second += one.second;
       }()),
       ...);
    }
    (std::index_sequence_for<Xs...>{});
    return std::pair{world_sum(ctx, total.first), world_sum(ctx, total.second)};
  };
  return p;
}

}  // namespace weft::testing
