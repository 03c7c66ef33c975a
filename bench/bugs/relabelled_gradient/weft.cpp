#include "../program.hpp"
using namespace weft;

struct width : dim_tag {
  static constexpr std::string_view name = "width";
};

int main() {
  return bugs::run<mesh<tp>>({.tp = 2}, [](context& ctx) {
    auto x = generate<tensor<float, dims<batch, hidden>>>(ctx, {4, 6}, bugs::data(1));
    auto w = generate<tensor<float, dims<hidden, width>>>(ctx, {6, 6}, bugs::data(2));
    auto head = generate<tensor<float, dims<width, vocab>, shard<vocab, tp>>>(ctx, {6, 8}, bugs::data(3));
    auto leaf = convert<replicate<tp>>(tanh(contract<hidden>(x, w))).requires_grad();
    backward(mean(square(contract<width>(leaf, head))));
#ifdef WRONG
    tensor<float, dims<batch, width>> da = leaf.grad();
#else
    tensor<float, dims<batch, width>> da = all_reduce<tp>(leaf.grad());
#endif
    w.requires_grad();
    backward(sum(tanh(contract<hidden>(x, w)) * da));
    return sum(square(w.grad()));
  });
}
