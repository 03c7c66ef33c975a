// Two ranks, a small model's forward and backward: prints the bits of its loss and of a weight's gradient.
#include <cstdio>

#include <weft/weft.hpp>
using namespace weft;

int main() {
  launch<strategy<mesh<tp>>>({.tp = 2}, [](context& ctx) {
    const auto x = normal<tensor<float, dims<batch, hidden>>>(ctx, "x", {6, 24});
    auto g = ones<tensor<float, dims<hidden>>>(ctx, {24}).requires_grad();
    auto w = normal<tensor<float, dims<hidden, ffn>, shard<ffn, tp>>>(ctx, "w", {24, 16}).requires_grad();
    const auto v = normal<tensor<float, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, "v", {16, 24});
    const auto h = silu(contract<hidden>(rms_norm(x, g), w));
    const auto loss = mean(square(all_reduce<tp>(contract<ffn>(h, v)) - x));
    backward(loss);
    const double number = item(loss);
    if (!ctx.is_first()) return;
    std::printf("%a\n", number);
    for (const float slope : w.grad().local_share()) std::printf("%a\n", static_cast<double>(slope));
  });
}
