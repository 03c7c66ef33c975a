// ring: every rank sees every slice once, knows whose it is, and gets its gradient back.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

using namespace weft;

namespace {

double number(std::int64_t i) { return double(i * i % 11) - 4; }

}  // namespace

TEST_CASE("a ring meets every slice once, its own first, and gradients come home") {
  for (const int n : {1, 2, 3, 4})
    launch<strategy<mesh<tp>>>(
        {.tp = n},
        [n](context& ctx) {
          auto x = generate<tensor<double, dims<seq>, shard<seq, tp>>>(ctx, {12}, number).requires_grad();
          const std::int64_t each = 12 / n;
          std::vector<int> owners;
          tensor<double, dims<>, partial<tp>> total;
          const auto look = [&](const auto& slice, int owner) {
            for (std::int64_t i = 0; i < each; ++i)
              require(slice.local_share()[i] == number(owner * each + i), "the slice isn't that of rank ", owner);
            const auto mine = sum(double(ctx.index<tp>().here() + 1) * slice);  // each rank looks at it in another way
            total = owners.empty() ? mine : total + mine;
            owners.push_back(owner);
          };
          ring<tp>(x, look);
          require(int(owners.size()) == n && owners[0] == ctx.index<tp>().here(), "saw ", owners.size(), " slices");
          double wanted = 0;
          for (std::int64_t i = 0; i < 12; ++i) wanted += number(i);
          require(item(all_reduce<tp>(total)) == wanted * n * (n + 1) / 2, "the sum is ", item(all_reduce<tp>(total)));
          backward(all_reduce<tp>(total));
          for (const double g : x.grad().local_share()) require(g == n * (n + 1) / 2, "a gradient is ", g);
        },
        {.check = false});  // which tells a factor of each rank's own
}
