// What find_package's consumer builds: two ranks, each with a slice of eight ones; together they count to eight.
#include <atomic>

#include <weft/weft.hpp>

int second_unit();  // second.cpp, which includes the library once more

int main() {
  using namespace weft;
  std::atomic<int> right{0};
  launch<strategy<mesh<dp>>>({.dp = 2}, [&](context& ctx) {
    float sum = 0;
    const auto x = ones<tensor<float, dims<batch>, shard<batch, dp>>>(ctx, {8});
    for (std::int64_t i = 0; i < x.local_elements(); ++i) sum += x.local_share()[i];
    float all = 0;
    ctx.world.all_reduce(&sum, &all, 1, dtype::f32, reduction::sum).wait();
    if (x.local_elements() == 4 && all == 8) ++right;
  });
  return right == 2 && second_unit() == 2 ? 0 : 1;
}
