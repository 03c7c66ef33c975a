// The same with stages, dropout, other optimizers, and a loop of one's own.
#include "late_training.hpp"

namespace {
using namespace weft;
using namespace weft_test;

TEST_CASE("late: stages, backwards in two parts, fp16 whose first steps overflow, zero2, dropout, tied embeddings") {
  check_late<gpt2, mesh<dp, pp>, zero2, fp16_from_above, zb_h1>({.dp = 2, .pp = 2}, small_gpt2, adamw{}, 3);
}

TEST_CASE("late: Muon and AdamW, fp16, zero1") {
  check_late<llama, mesh<dp>, zero1, fp16_from_above>({.dp = 2}, small_llama, by_shape{muon{}, adamw{}}, 3);
}

TEST_CASE("late: SGD, whose moments a step that isn't taken leaves alone") {
  check_late<llama, mesh<dp>, fp16_from_above>({}, small_llama, sgd{.weight_decay = 0.1, .nesterov = true}, 3);
}

}  // namespace
