// A function of tensors as a problem for finite differences; its arguments and output may be placed in any way. The
// types meet here; everything else is in problem.hpp. Invariant: each number used is a function of its global index,
// and no axis is named: a tensor's type says which it is placed on, its context which there are.
#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>

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

/// What the ranks along an axis hold of an X.
template <class X>
holds kind_on(axis_id axis) {
  holds kind = holds::invariant;
  [&]<class... As>(tag_list<As...>) {
    ((id_of<As> == axis ? void(kind = state_on<layout_of<X>, As>.kind) : void()), ...);
  }(axes_of<layout_of<X>>{});
  return kind;
}
inline bool same_on_all(holds kind) { return kind == holds::invariant || kind == holds::replicate; }

/// The first axis that L places so, or void.
template <holds Kind, class L, class Axes = axes_of<L>>
struct first_axis {
  using type = void;
};
template <holds Kind, class L, class A, class... As>
struct first_axis<Kind, L, tag_list<A, As...>>
    : std::conditional_t<state_on<L, A>.kind == Kind, std::type_identity<A>, first_axis<Kind, L, tag_list<As...>>> {};

/// Throws unless ranks that should hold the same of x do. What is in the padding doesn't count.
template <class X>
void require_equal_copies(context& ctx, const X& x, const char* what) {
  auto numbers = detail::without_padding(x);
  const local_array data(numbers.data(), dtype_of<typename X::element_type>, untyped(x).sizes());
  for (const axis_group& g : ctx.axes())
    if (same_on_all(kind_on<X>(g.axis))) require_equal_along(ctx, g.axis, data, what);
}
/// Whether this rank is the one that counts what a G, whole along some axes, holds.
template <class G>
bool counts(const context& ctx) {
  for (const axis_group& g : ctx.axes())
    if (g.index > 0 && kind_on<G>(g.axis) == holds::invariant) return false;
  return true;
}

/// The number at a global index: not near zero, so that kinks are not met.
inline double number(const philox& r, std::int64_t i, bool positive) {
  const double size = 0.25 + r.uniform(2 * static_cast<std::uint64_t>(i));
  return positive || r.uniform(2 * static_cast<std::uint64_t>(i) + 1) < 0.5f ? size : -size;
}
inline double direction(const philox& r, std::int64_t i) { return 2.0 * r.uniform(static_cast<std::uint64_t>(i)) - 1; }

/// An X of numbers f(global index). One type of f, so that a program compiles this once for each X.
using number_at = std::function<double(std::int64_t)>;
template <class X>
X filled(context& ctx, const extents& at, const number_at& f) {
  return [&]<class... Es>(dims<Es...>) {
    const value made = untyped(generate<whole<X>>(ctx, {at.of(tag_of<Es>{})...}, f));  // X may be pending or replicate
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
  for (const axis_group& g : ctx.axes())
    if (kind_on<X>(g.axis) == holds::partial) addends *= g.degree, mine = mine * g.degree + g.index;
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
  detail::poison_padding(x);
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
  using A = typename first_axis<holds::replicate, layout_of<Y>>::type;
  if constexpr (std::is_void_v<A>)
    return y;
  else
    return settled(convert<partial<A>>(y));
}
/// y with no sum pending.
template <class Y>
auto finished(const Y& y) {
  using A = typename first_axis<holds::partial, layout_of<Y>>::type;
  if constexpr (std::is_void_v<A>)
    return y;
  else
    return finished(all_reduce<A>(y));
}

/// A scalar of y: its elements' weighted sum, the weights random.
template <class Y>
auto probe(const Y& y) {
  context& ctx = *untyped(y).ctx;
  extents at;
  [&]<class... Es>(dims<Es...>) {
    (at.known.emplace_back(tag_of<Es>{}, y.template global_extent<tag_of<Es>>()), ...);
  }(dims_of<Y>{});
  const auto weights = filled<whole<Y>>(ctx, at, [&](std::int64_t i) { return direction({11, 0}, i); });
  return sum(settled(y) * weights);
}

template <class X>
std::pair<double, double> along(context& ctx, const X& x, const X& v) {
  const auto g = x.grad();
  using G = std::remove_const_t<decltype(g)>;
  static_assert(std::same_as<layout_of<G>, dual_layout<layout_of<X>>> && std::same_as<dims_of<G>, dims_of<X>>);
  require_equal_copies(ctx, g, "gradient");
  std::pair<double, double> total{};
  if (!counts<G>(ctx)) return total;
  const auto slopes = detail::without_padding(g), directions = detail::without_padding(v);
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    const double term = double(slopes[i]) * double(directions[i]);
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
  const auto declare_dim = [&]<class X, class D>() {
    const dimension_key key = D{};
    auto d = std::find_if(p.dims.begin(), p.dims.end(), [&](const auto& known) { return known.key == key; });
    if (d == p.dims.end()) d = p.dims.insert(d, {key});
    [&]<class... As>(tag_list<As...>) {
      ((std::count(d->over.begin(), d->over.end(), id_of<As>) ? void() : d->over.push_back(id_of<As>)), ...);
    }(shard_axes<layout_of<X>, D>{});
  };
  const auto declare = [&]<class X>() {
    [&]<class... Es>(dims<Es...>) { (declare_dim.template operator()<X, tag_of<Es>>(), ...); }(dims_of<X>{});
  };
  (declare.template operator()<Xs>(), ...);
  const bool positive = o.positive;
  p.at = [f, positive](context& ctx, const extents& at, double step) {
    const no_grad off(ctx);
    const auto xs = detail::inputs<Xs...>(ctx, at, step, positive);
    const auto loss = detail::finished(std::apply([&](const Xs&... x) { return detail::probe(f(x...)); }, xs));
    detail::require_equal_copies(ctx, loss, "loss");
    return double(item(loss));
  };
  p.slope = [f, positive](context& ctx, const extents& at) {
    auto xs = detail::inputs<Xs...>(ctx, at, 0, positive);
    const auto vs = detail::inputs<Xs...>(ctx, at, 1, positive, true);
    std::apply([](Xs&... x) { (x.requires_grad(), ...); }, xs);
    backward(std::apply([&](const Xs&... x) { return detail::probe(f(x...)); }, xs));
    require(ctx.tape->size() == 0, "the tape is not empty after backward");
    std::pair<double, double> total{};
    const auto add = [&](const auto& x, const auto& v) {
      const auto one = detail::along(ctx, x, v);
      total.first += one.first;
      total.second += one.second;
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) { (add(std::get<I>(xs), std::get<I>(vs)), ...); }
    (std::index_sequence_for<Xs...>{});
    return std::pair{detail::world_sum(ctx, total.first), detail::world_sum(ctx, total.second)};
  };
  return p;
}

}  // namespace weft::testing
