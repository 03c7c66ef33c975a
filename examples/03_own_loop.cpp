// A training loop of one's own: a perceptron whose hidden layer is sharded over tp and whose batch is sharded over dp.
// It learns y = sin(x0) * x1 and prints the same losses for every mesh.
#include <cmath>
#include <cstdio>

#include <weft/weft.hpp>
using namespace weft;

struct feature : dim_tag {
  static constexpr std::string_view name = "feature";
};
struct answer : dim_tag {
  static constexpr std::string_view name = "answer";
};

void train(const degrees& ranks) {
  launch<strategy<mesh<dp, tp>>>(ranks, [](context& ctx) {
    // Invariant over dp to us; replicate<dp> to operators, since each dp rank has another part of the batch.
    auto w =
        normal<tensor<float, dims<ffn, feature>, shard<ffn, tp>, replicate<dp>>>(ctx, "w", {32, 2}).requires_grad();
    auto v =
        normal<tensor<float, dims<answer, ffn>, shard<ffn, tp>, replicate<dp>>>(ctx, "v", {1, 32}, 0.2).requires_grad();
    adamw_state of_w, of_v;
    const adamw optimizer{.lr = 2e-2, .weight_decay = 0};

    for (int step = 0; step <= 200; ++step) {
      const auto x = uniform<tensor<float, dims<batch, feature>, shard<batch, dp>>>(ctx, "x" + std::to_string(step),
                                                                                    {64, 2}, -2, 2);
      const auto y = generate<tensor<float, dims<batch, answer>, shard<batch, dp>>>(ctx, {64, 1}, [&](std::int64_t i) {
        const philox numbers{ctx.seed, stream_of("x" + std::to_string(step))};
        const auto at = [&](std::int64_t j) { return -2 + 4 * double(numbers.uniform(std::uint64_t(j))); };
        return std::sin(at(2 * i)) * at(2 * i + 1);
      });
      const auto h = silu(contract<feature>(x, w));                // [batch/dp, ffn/tp]
      const auto predicted = all_reduce<tp>(contract<ffn>(h, v));  // [batch/dp, answer]
      const auto loss = mean(square(predicted - y));  // partial over dp: each rank has its part of the mean
      backward(loss);
      adamw_update(w, all_reduce<dp>(w.grad()), of_w, optimizer);  // the gradient is partial over dp; without
      adamw_update(v, all_reduce<dp>(v.grad()), of_v, optimizer);  // all_reduce<dp> this doesn't compile
      const auto total = all_reduce<dp>(detach(loss));             // a number: nothing is to be backpropagated
      if (ctx.is_first() && step % 50 == 0) std::printf("  step %3d  loss %.5f\n", step, double(item(total)));
    }
  });
}

int main() {
  for (const degrees& ranks : {degrees{}, degrees{.dp = 2, .tp = 2}, degrees{.dp = 4}}) {
    std::printf("dp %d x tp %d\n", ranks.dp, ranks.tp);
    train(ranks);
  }
}
