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
