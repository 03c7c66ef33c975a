// A tensor, a placement, a gradient: two ranks share a small feed-forward block.
#include <weft/weft.hpp>
using namespace weft;

int main() {
  launch<strategy<mesh<tp>>>({.tp = 2}, [](context& ctx) {
    auto x = normal<tensor<float, dims<batch, hidden>>>(ctx, "x", {4, 8});
    auto w = normal<tensor<float, dims<hidden, ffn>, shard<ffn, tp>>>(ctx, "w", {8, 16}).requires_grad();
    auto v = normal<tensor<float, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, "v", {16, 8});

    auto h = silu(contract<hidden>(x, w));  // [batch, ffn/tp]
    auto y =
        all_reduce<tp>(contract<ffn>(h, v));  // [batch, hidden]; without all_reduce<tp> the next line doesn't compile
    auto loss = mean(square(y));
    backward(loss);

    print("loss", loss);
    print("dw", w.grad());  // placed like w: each rank has its half of the columns
  });
}
