#include "../program.hpp"
using namespace weft;

int main() {
  return bugs::run<mesh<tp>>({.tp = 2}, [](context& ctx) {
    auto h = generate<tensor<float, dims<batch, ffn>, shard<ffn, tp>>>(ctx, {4, 8}, bugs::data(1));
    auto v = generate<tensor<float, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, {8, 4}, bugs::data(2));
    auto b = generate<tensor<float, dims<hidden>>>(ctx, {4}, bugs::data(3));
#ifdef WRONG
    auto y = all_reduce<tp>(contract<ffn>(h, v) + b);
#else
    auto y = all_reduce<tp>(contract<ffn>(h, v)) + b;
#endif
    return mean(square(y));
  });
}
