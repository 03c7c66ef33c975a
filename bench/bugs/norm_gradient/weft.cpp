#include "../program.hpp"
using namespace weft;

int main() {
  return bugs::run<mesh<tp>>({.tp = 2}, [](context& ctx) {
    auto x = generate<tensor<float, dims<seq, hidden>, shard<seq, tp>>>(ctx, {8, 4}, bugs::data(1));
    // The same on every rank; its gradient is left to be summed later.
    auto weight = generate<tensor<float, dims<hidden>, replicate<tp>>>(ctx, {4}, bugs::data(2)).requires_grad();
    backward(mean(square(rms_norm(x, weight, 1e-5))));
#ifdef WRONG
    auto gradient = weight.grad();
#else
    auto gradient = all_reduce<tp>(weight.grad());
#endif
    return sum(square(weight - 0.5 * gradient));
  });
}
