// Numbers at the edge of what an operator takes: huge extents, slices, positions and shifts that padding is part of.
#include <cstdint>
#include <limits>
#include <utility>

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

TEST_CASE("numbers that elements can't hold, and random numbers without a meaning, are refused") {
  using S = strategy<mesh<dp>>;
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  using whole = tensor<std::int32_t, dims<batch>>;
  using mask = tensor<std::uint8_t, dims<batch>>;
  using long_whole = tensor<std::int64_t, dims<batch>>;
  for (const double number : {2147483648.0, -2147483649.0, 2.5, infinity, nan})
    for (const bool generated : {false, true})
      says<S>({}, "is no int32", [&](context& ctx) {
        generated ? generate<whole>(ctx, {2}, [=](std::int64_t) { return number; }) : full<whole>(ctx, {2}, number);
      });
  for (const double number : {256.0, -1.0, 0.5})
    says<S>({}, "is no uint8", [&](context& ctx) { full<mask>(ctx, {2}, number); });
  for (const double number : {0x1p63, -0x1.1p63})
    says<S>({}, "is no int64", [&](context& ctx) { full<long_whole>(ctx, {2}, number); });
  for (const std::int64_t number : {std::int64_t{3000000000}, std::int64_t{-3000000000}})
    says<S>({}, "generate: ", [&](context& ctx) { generate<whole>(ctx, {2}, [=](auto) { return number; }); });
  launch<S>({}, [&](context& ctx) {
    const std::int64_t odd = (std::int64_t{1} << 60) + 1;  // no double holds it
    CHECK(generate<long_whole>(ctx, {2}, [=](auto) { return odd; }).local_share()[1] == odd);
    CHECK(full<whole>(ctx, {2}, 2147483647).local_share()[1] == 2147483647);
    CHECK(full<whole>(ctx, {2}, -2147483648.0).local_share()[1] == std::numeric_limits<std::int32_t>::min());
    CHECK(full<mask>(ctx, {2}, 255).local_share()[1] == 255);
    CHECK(full<long_whole>(ctx, {2}, -0x1p63).local_share()[1] == std::numeric_limits<std::int64_t>::min());
  });
  for (const double number : {nan, infinity, -1.0})
    says<S>({}, "the standard deviation is", [&](context& ctx) { normal<pair>(ctx, "x", {2, 2}, number); });
  says<S>({}, "uniform: from 2 to 1", [&](context& ctx) { uniform<pair>(ctx, "x", {2, 2}, 2, 1); });
  says<S>({}, "uniform: from 0 to inf", [&](context& ctx) { uniform<pair>(ctx, "x", {2, 2}, 0, infinity); });
}

TEST_CASE("uniform numbers lie below their end in every type") {
  launch<strategy<mesh<dp>>>({}, [](context& ctx) {
    const auto check = [&]<class T>(T, double low, double high) {
      const auto x = uniform<tensor<T, dims<batch>>>(ctx, "x", {20000}, low, high);
      for (const T number : x.local_share()) {
        REQUIRE(static_cast<double>(number) >= low);
        REQUIRE(static_cast<double>(number) < high);
      }
    };
    const std::pair<double, double> ranges[] = {{0, 1}, {-1, 0}, {-2, -1}, {1, 2}, {256, 257}};
    for (const auto& [low, high] : ranges)
      check(bf16(), low, high), check(fp16(), low, high), check(float(), low, high), check(double(), low, high);
    const auto same = uniform<pair>(ctx, "x", {2, 2}, 3, 3);
    CHECK(same.local_share()[3] == 3);
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
