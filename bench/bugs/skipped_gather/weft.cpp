#include "../program.hpp"
using namespace weft;

int main() {
  return bugs::run<mesh<tp>>({.tp = 2}, [](context& ctx) {
    auto x = generate<tensor<float, dims<seq, hidden>, shard<seq, tp>>>(ctx, {8, 4}, bugs::data(1));
    auto w1 = generate<tensor<float, dims<hidden, ffn>, shard<ffn, tp>>>(ctx, {4, 8}, bugs::data(2));
    auto w2 = generate<tensor<float, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, {8, 4}, bugs::data(3));
#ifdef WRONG
    auto h = silu(contract<hidden>(x, w1));
#else
    auto h = silu(contract<hidden>(all_gather<tp>(x), w1));
#endif
    auto y = reduce_scatter<seq, tp>(contract<ffn>(h, w2));
    return all_reduce<tp>(mean(square(y)));
  });
}
