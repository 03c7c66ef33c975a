// Numbers of tensors: item and on_host are the value's, a share is called so, and print says which it shows.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

using namespace weft;

TEST_CASE("item and on_host are the value's numbers; a share is this rank's") {
  launch<strategy<mesh<tp>>>({.tp = 2}, [](context& ctx) {
    const auto number = [](std::int64_t i) { return double(i); };
    auto x = generate<tensor<float, dims<batch, hidden>, shard<hidden, tp>>>(ctx, {2, 4}, number);
    require(on_host(all_gather<tp>(x)) == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, "the whole is wrong");
    const std::vector<float> mine =
        ctx.index<tp>() == 0 ? std::vector<float>{0, 1, 4, 5} : std::vector<float>{2, 3, 6, 7};
    require(local_share_on_host(x) == mine, "the share is wrong");
    const local_share<float> share = x.local_share();
    require(std::vector<float>(share.begin(), share.end()) == mine && share.size() == 4 && share[3] == mine[3],
            "the share in place is wrong");
    require(item(all_reduce<tp>(sum(x))) == 28, "the sum is wrong");
    require(item(sum(all_gather<tp>(x))) == 28, "the sum of the gathered is wrong");
    require(float(item(cast<bf16>(all_reduce<tp>(sum(x))))) == 28, "the sum in bf16 is wrong");
    x.write_local_share([](auto all) { all[0] = 100; });
    require(x.local_share()[0] == 100 && share[0] == 100, "a share isn't the tensor's memory");
    float total = 0;
    for (const float f :
         all_reduce<tp>(convert<partial<tp>>(ones<tensor<float, dims<hidden>>>(ctx, {3}))).local_share())
      total += f;  // the tensor is a temporary; its share keeps the memory
    require(total == 3, "a temporary's share is wrong");
  });
}

TEST_CASE("a share's sizes are known before it is made") {
  using ids = tensor<std::int32_t, dims<batch>>;
  launch<strategy<mesh<tp>>>({.tp = 2}, [](context& ctx) {
    const shape share = local_shape<tensor<float, dims<batch, hidden>, shard<hidden, tp>>>(ctx, {2, {3, 5}});
    require(share[0] == 3 && share[1] == 3, "5 columns over 2 ranks are 3 a rank, padding included");
    const int over = shards_of<layout<shard<hidden, tp>>, hidden>(ctx);
    require(over == 2, "the columns are on 2 ranks");
    const auto tokens = generate<ids>(ctx, {3}, [](std::int64_t i) { return std::int32_t(2 * i); });
    require_ids(tokens, 0, 5, "token");
    CHECK_THROWS_WITH_AS(require_ids(tokens, 0, 4, "token"), doctest::Contains("token 4 is outside"), failure);
  });
}

TEST_CASE("layers are shared among stages as evenly as can be") {
  launch<strategy<mesh<pp>>>({.pp = 2}, [](context& ctx) {
    const stage_place mine = stage_of(ctx, 5);
    require(mine.first() ? mine.begin == 0 && mine.end == 2 : mine.begin == 2 && mine.end == 5, "not 2 and 3 layers");
  });
}

TEST_CASE("a tensor that was never made says so") {
  CHECK_THROWS_WITH_AS(item(tensor<float, dims<>>()), doctest::Contains("a tensor that was never made is used"),
                       failure);
  CHECK_THROWS_WITH_AS(on_host(tensor<float, dims<hidden>>()), doctest::Contains("never made is used"), failure);
}
