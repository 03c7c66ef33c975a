#include "../program.hpp"
using namespace weft;

int main() {
  return bugs::run<mesh<tp>>({.tp = 2}, [](context& ctx) {
    auto z = generate<tensor<float, dims<seq, expert>, shard<seq, tp>>>(ctx, {8, 4}, bugs::data(1));
#ifdef WRONG
    const double tokens = double(z.local_extent<seq>());
#else
    const double tokens = double(z.global_extent<seq>());
#endif
    return all_reduce<tp>(tokens / 8 * mean(square(z)));
  });
}
