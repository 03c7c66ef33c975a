// The type of an input that isn't token ids: its batch is split as the sharding policy says.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
struct pixel : dim_tag {
  static constexpr std::string_view name = "pixel";
};
using shards = strategy<mesh<dp, tp>, zero3>;
using groups = strategy<mesh<dp, fsdp, tp>, hybrid>;
using image = dims<batch, pixel>;

static_assert(std::same_as<batch_tensor<shards, float, image>, tensor<float, image, shard<batch, dp>>>);
static_assert(std::same_as<batch_tensor<groups, float, image>, tensor<float, image, shard<batch, dp, fsdp>>>);
static_assert(std::same_as<batch_tensor<groups, bf16, image, shard<pixel, tp>>,
                           tensor<bf16, image, shard<batch, dp, fsdp>, shard<pixel, tp>>>);
static_assert(std::same_as<token_ids<groups>, batch_tensor<groups, std::int32_t, dims<batch, seq>>>);
}  // namespace

TEST_CASE("an input's batch is split over the policy's axes, and its loss is finished over them") {
  launch<groups>(degrees{.dp = 2}.with<fsdp>(2), [](context& ctx) {
    const auto x = uniform<batch_tensor<groups, float, image>>(ctx, "x", {8, 3});
    CHECK(x.local_extent<batch>() == 2);
    const loss_sums all =
        finished<decltype(sum(x))>(ctx, {double(sum(x).local_share()[0]), double(sum(0 * x + 1).local_share()[0])});
    CHECK(all.sum == doctest::Approx(item(all_reduce<dp>(all_reduce<fsdp>(sum(x))))));
    CHECK(all.count == 24);
  });
}
