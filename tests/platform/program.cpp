// What a platform has to get right, in one small program: elementary functions, the first example's numbers, a few
// steps of training on four ranks, and that a loss which is not a number is seen. Says what is wrong; exits with 0
// or 1.
#include <cstdio>
#include <string>

#include <weft/weft.hpp>

#include "functions.hpp"
using namespace weft;
using S = strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full>;

namespace {

int faults = 0;

void near(const char* what, double is, double should, double within) {
  faults += platform::fault_unless_near(what, is, should, within);
}

void first_example() {
  launch<strategy<mesh<tp>>>({.tp = 2}, [](context& ctx) {
    auto x = normal<tensor<float, dims<batch, hidden>>>(ctx, "x", {4, 8});
    auto w = normal<tensor<float, dims<hidden, ffn>, shard<ffn, tp>>>(ctx, "w", {8, 16}).requires_grad();
    auto v = normal<tensor<float, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, "v", {16, 8});
    auto y = all_reduce<tp>(contract<ffn>(silu(contract<hidden>(x, w)), v));
    auto loss = mean(square(y));
    backward(loss);
    if (!ctx.is_first()) return;
    near("the first example's loss", item(loss), 61.0381, 1e-3);
    near("the first example's gradient", w.grad().local_share()[0], -1.77545, 1e-4);
  });
}

// The text is numbers in order.
struct counting {
  context* ctx;
  template <class Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t seq) const {
    const auto shifted = [&](std::int64_t by) {
      return generate<Ids>(*ctx, {count, seq}, [&](std::int64_t i) { return (step + first + i + by) % 10 + '0'; });
    };
    return {shifted(0), shifted(1)};
  }
  template <class Ids>
  token_batch<Ids> validation(std::int64_t first, std::int64_t count, std::int64_t seq) const {
    return train<Ids>(0, first, count, seq);
  }
  bool can_validate(std::int64_t) const { return true; }
};

training_result train(double lr) {
  training_result result;
  launch<S>({.dp = 2, .tp = 2}, [&](context& ctx) {
    llama<S> model(ctx, {.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .vocab = 256, .max_seq = 16});
    trainer training(ctx, model, adamw{.lr = lr});
    const auto r = training.run(counting{&ctx}, {.steps = 4, .batch = 4, .print = false});
    if (ctx.is_first()) result = r;
  });
  return result;
}

}  // namespace

int main() {
  faults += platform::function_faults();
  try {
    first_example();
    const training_result r = train(1e-2);
    near("the first step's loss", r.first_loss, 5.6267, 5e-3);
    near("the fourth step's loss", r.loss, 4.5217, 2e-2);
  } catch (const failure& e) {
    std::printf("FAULT: %s\n", e.what());
    ++faults;
  }
  try {
    train(1e30);
    std::puts("FAULT: training went on without a number for its loss");
    ++faults;
  } catch (const failure& e) {
    if (std::string(e.what()).find("training stops there") == std::string::npos) {
      std::printf("FAULT: training stopped with: %s\n", e.what());
      ++faults;
    }
  }
  std::printf("%d faults\n", faults);
  return faults != 0;
}
