#include "../program.hpp"
using namespace weft;

int main() {
  return bugs::run<mesh<dp>>({.dp = 2}, [](context& ctx) {
    auto x = generate<tensor<float, dims<batch, hidden>, shard<batch, dp>>>(ctx, {8, 4}, bugs::data(1));
    auto mask = generate<tensor<float, dims<batch>, shard<batch, dp>>>(ctx, {8}, bugs::counted);
    auto w = generate<tensor<float, dims<hidden>>>(ctx, {4}, bugs::data(2));
    auto total = sum(mask * square(contract<hidden>(x, w)));
    auto count = sum(mask);
#ifdef WRONG
    return 0.5 * all_reduce<dp>(total / count);
#else
    return all_reduce<dp>(total) / all_reduce<dp>(count);
#endif
  });
}
