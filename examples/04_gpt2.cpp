// A small GPT-2 with dropout learns to count: its text is numbers in order. Trained on one rank and on dp 2 x tp 2 with
// sharded weights, recomputation and the sequence sharded between blocks, it prints the same losses, up to rounding.
#include <cstdio>

#include <weft/weft.hpp>
using namespace weft;

// Bytes of "0 1 2 ... 99 0 1 ...", a window a sequence, starting anywhere.
struct counting {
  context* ctx;
  std::string text;

  explicit counting(context& r) : ctx(&r) {
    for (int i = 0; i < 1000; ++i) text += std::to_string(i % 100) + ' ';
  }
  template <class Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t seq) const {
    const philox numbers{ctx->seed, static_cast<std::uint64_t>(step)};
    const auto shifted = [&](std::int64_t by) {
      return generate<Ids>(*ctx, {count, seq}, [&](std::int64_t i) {
        const auto begin = numbers.word(static_cast<std::uint64_t>(first + i / seq)) %
                           (text.size() - static_cast<std::size_t>(seq) - 1);
        return static_cast<unsigned char>(text[begin + static_cast<std::size_t>(i % seq + by)]);
      });
    };
    return {shifted(0), shifted(1)};
  }
  template <class Ids>
  token_batch<Ids> validation(std::int64_t first, std::int64_t count, std::int64_t seq) const {
    return train<Ids>(0, first, count, seq);
  }
  bool can_validate(std::int64_t) const { return true; }
};

template <class S>
void train(const degrees& ranks) {
  launch<S>(ranks, [](context& ctx) {
    gpt2<S> model(ctx, {.layers = 2, .hidden = 64, .heads = 4, .vocab = 256, .max_seq = 32, .dropout = 0.1});
    trainer training(ctx, model, {.lr = 4e-3});
    const auto r = training.run(counting(ctx), {.steps = 300, .batch = 16, .schedule = {.warmup = 10}, .print = false});
    const std::string sample = generate(model, "17 18 19 ", {.tokens = 15, .temperature = 0});
    if (ctx.is_first())
      std::printf("  loss %.4f, at first %.4f; without dropout %.4f\n  17 18 19 %s\n", r.loss, r.first_loss,
                  r.validation_loss, sample.c_str());
  });
}

int main() {
  std::printf("one rank\n");
  train<strategy<mesh<dp, tp>>>({});
  std::printf("dp 2 x tp 2\n");
  train<strategy<mesh<dp, tp>, zero3, checkpoint_full, sequence_parallel>>({.dp = 2, .tp = 2});
}
