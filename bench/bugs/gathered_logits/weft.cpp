#include "../program.hpp"
using namespace weft;

int main() {
  return bugs::run<mesh<tp>>({.tp = 2}, [](context& ctx) {
    auto x = generate<tensor<float, dims<batch, hidden>>>(ctx, {4, 6}, bugs::data(1));
    auto w = generate<tensor<float, dims<hidden, vocab>, shard<vocab, tp>>>(ctx, {6, 8}, bugs::data(2)).requires_grad();
    auto targets = generate<tensor<std::int32_t, dims<batch>>>(ctx, {4}, bugs::target);
    auto logits = contract<hidden>(x, w);
#ifdef WRONG
    auto loss = cross_entropy(all_gather<tp>(logits), targets);
#else
    auto loss = cross_entropy(convert<invariant<tp>>(logits), targets);
#endif
    backward(0.25 * loss.sum);  // of 4 tokens
    return all_reduce<tp>(sum(square(w.grad())));
  });
}
