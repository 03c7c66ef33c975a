#include "../program.hpp"
using namespace weft;

int main() {
  return bugs::run<mesh<tp>>({.tp = 2}, [](context& ctx) {
    auto whole = generate<tensor<float, dims<hidden>>>(ctx, {6}, bugs::data(1));
    auto sinks = generate<tensor<float, dims<heads>, shard<heads, tp>>>(ctx, {8}, bugs::data(2));
#ifdef WRONG
    auto squares = sum(square(sinks));
#else
    auto squares = all_reduce<tp>(sum(square(sinks)));
#endif
    return sqrt(sum(square(whole)) + squares);
  });
}
