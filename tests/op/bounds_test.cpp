// Numbers at the edge of what an operator takes: huge extents, slices, positions and shifts that padding is part of.
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

using namespace weft;

namespace {
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
using pair = tensor<float, dims<batch, hidden>>;

template <class S, class F>
void says(const degrees& ranks, const char* what, F&& f) {
  CHECK_THROWS_WITH_AS(launch<S>(ranks, f), doctest::Contains(what), failure);
}
}  // namespace

TEST_CASE("extents whose product is no number are refused") {
  using S = strategy<mesh<dp>>;
  says<S>({}, "more than 2^58 elements", [](context& ctx) { zeros<pair>(ctx, {most, 1}); });
  says<S>({}, "more than 2^58 elements", [](context& ctx) { zeros<pair>(ctx, {1, most}); });
  says<S>({}, "more than 2^58 elements", [](context& ctx) {
    zeros<pair>(ctx, {std::int64_t{1} << 33, std::int64_t{1} << 33});
  });
  says<S>({.dp = 2}, "more than 2^58 elements", [](context& ctx) {
    zeros<tensor<float, dims<batch, hidden>, shard<batch, dp>>>(ctx, {most, most});
  });
}

TEST_CASE("a slice that begins at the end of the numbers is outside") {
  says<strategy<mesh<dp>>>({}, "slice of dimension hidden", [](context& ctx) {
    slice<hidden>(ones<pair>(ctx, {2, 4}), most - 1, 3);
  });
}

TEST_CASE("rope needs no position for padding") {
  launch<strategy<mesh<tp>>>({.tp = 4}, [](context& ctx) {
    const auto filled = [&](float with) {
      local_array a = ctx.make(dtype_of<float>, {2, {5, 2}}, memory::buffers);
      for (int i = 0; i < 10; ++i) a.as<float>()[i] = with;
      return a;
    };
    const rope_table still{filled(1), filled(0)};
    const auto x = normal<tensor<float, dims<batch, seq, heads, head_dim>, shard<seq, tp>>>(ctx, "x", {3, 5, 2, 4});
    CHECK(on_host(convert<invariant<tp>>(rope(x, still) - x)) ==
          on_host(zeros<tensor<float, dims<batch, seq, heads, head_dim>>>(ctx, {3, 5, 2, 4})));
  });
}

TEST_CASE("slices of a dimension that two axes shard don't change places where one of them is shorter") {
  using S = strategy<mesh<dp, tp>>;
  using both = tensor<float, dims<seq>, shard<seq, dp, tp>>;
  const auto number = [](std::int64_t i) { return 10.0 + static_cast<double>(i); };
  const char* const sentence = "dimension seq has 5 elements, which 6 ranks don't divide";
  says<S>({.dp = 2, .tp = 3}, sentence, [&](context& ctx) { shift<tp>(generate<both>(ctx, {5}, number)); });
  says<S>({.dp = 3, .tp = 2}, sentence, [&](context& ctx) { shift<dp>(generate<both>(ctx, {5}, number)); });
  launch<S>({.dp = 2, .tp = 3}, [&](context& ctx) {
    const auto x = shift<tp>(generate<both>(ctx, {6}, number));
    CHECK(item(all_reduce<dp>(all_reduce<tp>(sum(x)))) == 75);
  });
}

TEST_CASE("a leaf that is made where it stands is a value") {
  launch<strategy<mesh<dp>>>({}, [](context& ctx) {
    const auto& w = ones<pair>(ctx, {2, 2}).requires_grad();
    static_assert(!std::is_reference_v<decltype(ones<pair>(ctx, {2, 2}).requires_grad())>);
    backward(sum(w * 3.0));
    CHECK(on_host(w.grad())[0] == 3);
  });
}

TEST_CASE("an update shows in what was converted before it on one rank as on two: nowhere") {
  for (const int n : {1, 2})
    launch<strategy<mesh<dp>>>({.dp = n}, [](context& ctx) {
      using sliced = tensor<float, dims<ffn, hidden>, shard<ffn, dp>>;
      auto w = ones<sliced>(ctx, {4, 4}).requires_grad();
      const auto whole = convert<invariant<dp>>(w);
      const auto constant = convert<invariant<dp>>(detach(w));
      backward(sum(square(whole)));
      adamw_state state;
      adamw_update(w, w.grad(), state, {.lr = 0.5});
      CHECK(item(sum(detach(whole))) == 16);
      CHECK(item(sum(constant)) == 16);
      CHECK(item(all_reduce<dp>(sum(detach(w)))) < 16);
    });
}
