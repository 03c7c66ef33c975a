// Runs that give a step before they know of the one before, as in step_late_test.cpp, on several ranks, which tell each
// other of each step.
#include "now_and_late.hpp"

namespace {
using namespace weft_test;

// zero3 in bf16 with recomputation, and an optimizer with one moment.
seen on_four(const training& plan, std::vector<std::int64_t> bad = {}) {
  return same<llama, mesh<dp, tp>, zero3, bf16_mixed, checkpoint_selective>(
      {.dp = 2, .tp = 2}, tiny, {.plan = plan, .bad = std::move(bad)}, sgd{.nesterov = true});
}

TEST_CASE("a step ahead: what the ranks tell each other of a step is waited for where the step is judged") {
  const seen four = on_four(steps(6));
  CHECK(ahead(four) == 5);
  CHECK(std::count(four.left.begin(), four.left.end(), 0) == std::ssize(four.left) - 5);
}

TEST_CASE("a step ahead: a NaN on one of four ranks") {
  const seen four = on_four(steps(6, {.on_non_finite = non_finite::zero}), {3});
  CHECK(four.text.find("the gradient norm of step 3 is not a number, first seen in the backward of layer 1") !=
        std::string::npos);
}

}  // namespace
