#include "../program.hpp"
using namespace weft;

struct gated : dim_tag {
  static constexpr std::string_view name = "gated";
};

// WRONG is the same program: `a` is invariant and the experts shard it, so its gradient is summed over tp without being
// asked, and nothing can be left out.
int main() {
  return bugs::run<mesh<tp>>({.tp = 2}, [](context& ctx) {
    auto x = generate<tensor<float, dims<batch, hidden>>>(ctx, {4, 6}, bugs::data(1));
    auto gate = generate<tensor<float, dims<hidden, gated>>>(ctx, {6, 6}, bugs::data(2)).requires_grad();
    auto w1 = generate<tensor<float, dims<gated, ffn>, shard<ffn, tp>>>(ctx, {6, 8}, bugs::data(3));
    auto w2 = generate<tensor<float, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, {8, 6}, bugs::data(4));
    auto a = tanh(contract<hidden>(x, gate));
    auto y = all_reduce<tp>(contract<ffn>(silu(contract<gated>(a, w1)), w2));
    backward(mean(square(y)));
    return sum(square(gate.grad()));
  });
}
