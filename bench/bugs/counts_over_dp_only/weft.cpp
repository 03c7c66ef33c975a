#include "../program.hpp"
using namespace weft;

int main() {
  return bugs::run<mesh<dp, tp>>({.dp = 2, .tp = 2}, [](context& ctx) {
    using routing = tensor<float, dims<batch, seq, expert>, shard<batch, dp>, shard<seq, tp>>;
    auto routed = generate<routing>(ctx, {4, 4, 3}, bugs::chosen);
    auto even = full<tensor<float, dims<expert>>>(ctx, {3}, 16 / 3.0);
#ifdef WRONG
    auto counts = all_reduce<dp>(sum<batch, seq>(routed));
#else
    auto counts = all_reduce<tp>(all_reduce<dp>(sum<batch, seq>(routed)));
#endif
    return sum(abs(counts - even));
  });
}
