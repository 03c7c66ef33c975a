// program first FOLDER: trains two steps, and saves to FOLDER. program next FOLDER FROM: goes on from FROM, two steps,
// and saves. program loss FROM: goes on from FROM, two steps, and prints the loss.
#include <cstdio>

#include <weft/train/checkpoint.hpp>
#include <weft/weft.hpp>

#include "../small_batches.hpp"

using namespace weft;

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  try {
    launch<strategy<mesh<dp>, zero3>>({.dp = 2}, [&](context& ctx) {
      gpt2<strategy<mesh<dp>, zero3>> model(
          ctx, {.layers = 1, .hidden = 8, .heads = 2, .vocab = 31, .max_seq = 8, .dropout = 0});
      trainer t(ctx, model);
      if (given[0] != "first") load_checkpoint(ctx, t, given.back());
      const training_result r =
          t.run(weft_test::small_batches{&ctx}, {.steps = 2, .batch = 4, .validation_sequences = 0, .print = false});
      if (given[0] != "loss")
        save_checkpoint(ctx, t, given[1]);
      else if (ctx.is_first())
        std::printf("%.9f\n", r.loss);
    });
  } catch (const failure& e) {
    std::puts(e.what());
    return 1;
  }
}
