#include "../program.hpp"
using namespace weft;

int main() {
  return bugs::run<mesh<cp>>({.cp = 2}, [](context& ctx) {
    auto x = generate<tensor<float, dims<seq, hidden>, shard<seq, cp>>>(ctx, {8, 4}, bugs::data(1));
    auto w = generate<tensor<float, dims<hidden>>>(ctx, {4}, bugs::data(2)).requires_grad();
    auto loss = mean(square(contract<hidden>(x, w)));
#ifdef WRONG
    loss = double(ctx.degree<cp>()) * loss;
#endif
    backward(loss);
    return sum(square(w.grad()));
  });
}
