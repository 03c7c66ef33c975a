// Every conversion and its gradient are adjoint: <A x, y> = <x, A^T y>, with inner products over all ranks that follow
// from the placements; and gather after scatter is the identity. Random shapes, 1 to 8 ranks, one and two axes.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/backend/cpu.hpp>
#include <weft/op/convert.hpp>
#include <weft/op/create.hpp>
#include <weft/op/ring.hpp>

#include "ranks.hpp"

namespace {

using namespace weft;
using namespace laws;
using d3 = dims<batch, seq, hidden>;
template <class... Ps>
using real = tensor<double, d3, Ps...>;

/// Any numbers on each rank, as far as the placement allows: the same along the axes on which X is whole.
template <class X>
X any_numbers(context& ctx, const shape& global, std::uint64_t salt) {
  const auto varies = [](holds kind) { return kind == holds::shard || kind == holds::partial; };
  const std::uint64_t i = varies(state_on<layout_of<X>, dp>.kind) ? std::uint64_t(ctx.index<dp>()) : 0;
  const std::uint64_t j = varies(state_on<layout_of<X>, tp>.kind) ? std::uint64_t(ctx.index<tp>()) : 0;
  const philox numbers{salt, i * 100 + j};
  const X x = weft::detail::empty_tensor<X>(ctx, global);
  for (std::int64_t k = 0; k < x.local_elements(); ++k)
    x.local_share()[k] = 2.0 * numbers.uniform(std::uint64_t(k)) - 1;
  poison_padding(x);
  return x;
}

/// <x, y> of a value and a gradient: one addend a rank, counted once along the axes on which both are whole.
template <class X, class Y>
double inner(context& ctx, const X& x, const Y& y) {
  static_assert(std::same_as<layout_of<Y>, dual_layout<layout_of<X>>>);
  const bool again = (state_on<layout_of<X>, dp>.kind == holds::invariant && ctx.index<dp>() > 0) ||
                     (state_on<layout_of<X>, tp>.kind == holds::invariant && ctx.index<tp>() > 0);
  double total = 0;
  const local_array a = without_padding(x), b = without_padding(y);
  for (std::int64_t i = 0; !again && i < x.local_elements(); ++i) total += a.as<double>()[i] * b.as<double>()[i];
  return world_sum(ctx, total);
}

/// The law for the function `convert`, which takes an X.
template <class X, class F>
void adjoint(const char* what, F convert, bool even = false) {
  for (const degrees& mesh : meshes) {
    INFO(std::string(what), ", dp ", mesh.dp, ", tp ", mesh.tp);
    try {
      on_ranks(mesh, [&](context& ctx) {
        const philox numbers{3, stream_of(what)};
        shape global;  // of 1 to twice the ranks: in most cases some of them hold padding
        for (std::uint64_t d = 0; d < 3; ++d) {
          const std::uint32_t word = numbers.word(d + 4 * std::uint64_t(mesh.dp));
          const std::int64_t ranks = mesh.dp * mesh.tp;
          global.push_back(even ? (1 + word % 2) * ranks : 1 + word % (2 * ranks));
        }
        X x = any_numbers<X>(ctx, global, 1);
        x.requires_grad();
        const auto y = convert(x);
        using Y = std::remove_const_t<decltype(y)>;
        using G = typename Y::gradient_type;
        const G dy = any_numbers<G>(ctx, y.whole, 2);
        if (y.slot != x.slot) {  // recorded: a promotion along one rank is not
          y.slot->gradient = dy.data;
          y.slot->has_gradient = true;
          ctx.tape->backward(ctx);
        } else {
          x.slot->gradient = dy.data;
          x.slot->has_gradient = true;
        }
        const auto dx = x.grad();
        const double there = inner(ctx, y, dy), back = inner(ctx, x, dx);
        // Both are sums of the same at most 10^5 products of numbers below 1, in another order.
        require(std::abs(there - back) < 1e-10, "<Ax, y> is ", there, " and <x, A'y> is ", back);
        if constexpr (requires { dx.slot; }) {  // what is said to be the same on all ranks is
          constexpr auto whole = [](holds kind) { return kind == holds::invariant || kind == holds::replicate; };
          if (whole(state_on<layout_of<Y>, dp>.kind)) require_equal_along(ctx, id_of<dp>, without_padding(y), "output");
          if (whole(state_on<layout_of<Y>, tp>.kind)) require_equal_along(ctx, id_of<tp>, without_padding(y), "output");
          if (whole(state_on<dual_layout<layout_of<X>>, dp>.kind))
            require_equal_along(ctx, id_of<dp>, without_padding(dx), "gradient");
          if (whole(state_on<dual_layout<layout_of<X>>, tp>.kind))
            require_equal_along(ctx, id_of<tp>, without_padding(dx), "gradient");
        }
      });
    } catch (const weft::failure& e) {
      FAIL_CHECK(std::string(e.what()));
    }
  }
}

#define WEFT_ADJOINT(expression, ...) \
  adjoint<real<__VA_ARGS__>>(#expression " of " #__VA_ARGS__, [](const auto& v) { return expression; })

TEST_CASE("conversions of the table are adjoint to their gradients, along one axis") {
  WEFT_ADJOINT((convert<replicate<tp>>(v)));
  WEFT_ADJOINT((convert<partial<tp>>(v)));
  WEFT_ADJOINT((split<seq, tp>(v)));
  WEFT_ADJOINT((convert<partial<tp>>(v)), replicate<tp>);
  WEFT_ADJOINT((split<hidden, tp>(v)), replicate<tp>);
  WEFT_ADJOINT((all_reduce<tp>(v)), partial<tp>);
  WEFT_ADJOINT((convert<replicate<tp>>(v)), partial<tp>);
  WEFT_ADJOINT((reduce_scatter<batch, tp>(v)), partial<tp>);
  WEFT_ADJOINT((all_gather<tp>(v)), shard<hidden, tp>);
  WEFT_ADJOINT((convert<invariant<tp>>(v)), shard<seq, tp>);
  WEFT_ADJOINT((all_to_all<batch, tp>(v)), shard<seq, tp>);
  WEFT_ADJOINT((all_to_all<hidden, tp>(v)), shard<batch, tp>);
  adjoint<real<shard<seq, tp>>>(
      "shift<tp>(v)", [](const auto& v) { return shift<tp>(v); }, true);
}

TEST_CASE("conversions along one axis leave the other as it is") {
  WEFT_ADJOINT((convert<replicate<tp>>(v)), shard<batch, dp>);
  WEFT_ADJOINT((convert<partial<tp>>(v)), partial<dp>);
  WEFT_ADJOINT((all_reduce<tp>(v)), partial<dp>, partial<tp>);
  WEFT_ADJOINT((split<seq, tp>(v)), partial<dp>, replicate<tp>);
  WEFT_ADJOINT((reduce_scatter<hidden, tp>(v)), replicate<dp>, partial<tp>);
  WEFT_ADJOINT((all_gather<tp>(v)), replicate<dp>, shard<hidden, tp>);
  WEFT_ADJOINT((all_to_all<batch, tp>(v)), shard<hidden, dp>, shard<seq, tp>);
}

TEST_CASE("conversions of a dimension over two axes") {
  WEFT_ADJOINT((split<seq, tp>(v)), shard<seq, dp>);
  WEFT_ADJOINT((reduce_scatter<seq, dp>(v)), shard<seq, tp>, partial<dp>);
  WEFT_ADJOINT((all_gather<tp>(v)), shard<seq, dp, tp>);
  WEFT_ADJOINT((convert<invariant<dp>>(v)), shard<seq, tp, dp>);
  WEFT_ADJOINT((all_to_all<hidden, tp>(v)), shard<seq, dp, tp>);
  WEFT_ADJOINT((all_to_all<seq, tp>(v)), shard<seq, dp>, shard<hidden, tp>);
  adjoint<real<shard<seq, tp, dp>>>(
      "shift<dp>(v)", [](const auto& v) { return shift<dp>(v); }, true);
  WEFT_ADJOINT((all_gather<dp>(all_gather<tp>(split<seq, tp>(split<seq, dp>(v))))));
}

/// On every mesh: f(x) holds the numbers that `like` holds, made from the same global ones.
template <class X, class Like, class F>
void same_numbers(F f) {
  for (const degrees& mesh : meshes)
    on_ranks(mesh, [&](context& ctx) {
      const auto number = [](std::int64_t i) { return double(i) + 0.5; };
      for (const std::int64_t seqs : {48, 47, 5}) {
        const auto x = generate<X>(ctx, {24, seqs, 23}, number);
        const auto like = generate<Like>(ctx, {24, seqs, 23}, number);
        poison_padding(x);
        const auto y = f(x);
        static_assert(std::same_as<layout_of<decltype(y)>, layout_of<Like>>);
        require(y.held().shape == like.held().shape, "the shapes differ");
        const local_array got = without_padding(y);  // generate writes zeros there
        for (std::int64_t i = 0; i < y.local_elements(); ++i)
          require(got.as<double>()[i] == like.local_share()[i], "element ", i, " of rank ", ctx.rank(), " is ",
                  got.as<double>()[i]);
      }
    });
}

TEST_CASE("gather after scatter is the identity, and every conversion keeps the global value") {
  same_numbers<real<>, real<replicate<tp>>>([](const auto& x) { return all_gather<tp>(split<seq, tp>(x)); });
  same_numbers<real<>, real<>>([](const auto& x) { return convert<invariant<dp>>(split<hidden, dp>(x)); });
  same_numbers<real<>, real<>>([](const auto& x) { return all_reduce<tp>(convert<partial<tp>>(x)); });
  same_numbers<real<>, real<shard<hidden, tp>>>(
      [](const auto& x) { return reduce_scatter<hidden, tp>(convert<partial<tp>>(x)); });
  same_numbers<real<shard<seq, tp>>, real<shard<seq, tp>>>(
      [](const auto& x) { return all_to_all<seq, tp>(all_to_all<batch, tp>(x)); });
  same_numbers<real<shard<seq, tp>>, real<shard<hidden, tp>>>([](const auto& x) { return all_to_all<hidden, tp>(x); });
  same_numbers<real<>, real<shard<seq, dp, tp>>>([](const auto& x) { return split<seq, tp>(split<seq, dp>(x)); });
  same_numbers<real<shard<seq, dp, tp>>, real<shard<seq, dp>, replicate<tp>>>(
      [](const auto& x) { return all_gather<tp>(x); });
  same_numbers<real<shard<seq, dp>, shard<hidden, tp>>, real<shard<seq, dp, tp>>>(
      [](const auto& x) { return all_to_all<seq, tp>(x); });
  same_numbers<real<shard<seq, tp, dp>>, real<shard<seq, tp>, shard<batch, dp>>>(
      [](const auto& x) { return all_to_all<batch, dp>(x); });
}

TEST_CASE("shift hands each slice to the next rank of its ring") {
  for (const degrees& mesh : meshes)
    on_ranks(mesh, [](context& ctx) {
      const auto y =
          shift<tp>(generate<tensor<double, dims<seq>, shard<seq, tp>>>(ctx, {24}, [](std::int64_t i) { return i; }));
      const int n = ctx.degree<tp>(), from = (ctx.index<tp>() + n - 1) % n;
      for (std::int64_t i = 0; i < y.local_elements(); ++i)
        require(y.local_share()[i] == double(from * y.local_elements() + i), "element ", i, " is ", y.local_share()[i]);
    });
}

TEST_CASE("slices of a dimension that the ranks don't divide don't change places") {
  CHECK_THROWS_WITH_AS(
      on_ranks({.tp = 4},
               [](context& ctx) { shift<tp>(full<tensor<double, dims<seq>, shard<seq, tp>>>(ctx, {6}, 1)); }),
      doctest::Contains("shift<tp>(x): dimension seq has 6 elements, which 4 ranks don't divide"), weft::failure);
}

}  // namespace
