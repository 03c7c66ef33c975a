// Tensors as text.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

TEST_CASE("describe names sizes and placements") {
  using namespace weft;
  launch<strategy<mesh<dp, tp>>>({.dp = 2, .tp = 2}, [](context& ctx) {
    using X = tensor<bf16, dims<batch, seq, hidden>, shard<batch, dp>, replicate<tp>>;
    CHECK(describe(zeros<X>(ctx, {4, 3, 5})) == "bf16 [batch 2 of 4, seq 3, hidden 5] shard<batch, dp> replicate<tp>");
    using Y = tensor<std::int32_t, dims<batch>, shard<batch, dp, tp>>;
    CHECK(describe(zeros<Y>(ctx, {8})) == "int32 [batch 2 of 8] shard<batch, dp, tp>");
    CHECK(describe(convert<partial<tp>>(zeros<tensor<double, dims<>>>(ctx, {}))) == "fp64 [] partial<tp>");
  });
}

TEST_CASE("print says in words what a rank's numbers are of the value") {
  using namespace weft;
  launch<strategy<mesh<dp, tp>>>({.dp = 2}, [](context& ctx) {
    if (!ctx.is_first()) return;
    const auto line = [](const auto& x) { return detail::line_of("x", x, 2); };
    const auto number = [](std::int64_t i) { return double(i) + 0.5; };
    CHECK(line(generate<tensor<float, dims<hidden>>>(ctx, {3}, number)) == "rank 0: x fp32 [hidden 3] = 0.5 1.5 ...");
    CHECK(line(generate<tensor<float, dims<>, replicate<tp>>>(ctx, {}, number)) ==
          "rank 0: x fp32 [] replicate<tp> = 0.5");
    CHECK(line(generate<tensor<float, dims<batch>, shard<batch, dp>>>(ctx, {4}, number)) ==
          "rank 0: x fp32 [batch 2 of 4] shard<batch, dp>, this rank's slice: 0.5 1.5");
    const auto slice = generate<tensor<float, dims<batch>, shard<batch, dp>>>(ctx, {2}, number);
    CHECK(line(sum(slice)) == "rank 0: x fp32 [] partial<dp>, one addend of a sum pending over dp: 0.5");
    using both = tensor<float, dims<batch>, partial<dp>, partial<tp>>;
    CHECK(line(both(untyped(generate<tensor<float, dims<batch>>>(ctx, {1}, number)))) ==
          "rank 0: x fp32 [batch 1] partial<dp> partial<tp>, one addend of a sum pending over dp and tp: 0.5");
    CHECK(line(convert<partial<tp>>(slice)) ==
          "rank 0: x fp32 [batch 1 of 2] shard<batch, dp> partial<tp>, this rank's slice of one addend of a sum "
          "pending over "
          "tp: 0.5");
  });
}
