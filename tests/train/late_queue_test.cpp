// A training step is given to the queue as a whole: on one that runs behind its host the numbers are the same, and the
// host waits once a step, for what became of it.
#include "late_training.hpp"

namespace {
using namespace weft;
using namespace weft_test;

TEST_CASE("late: one rank, two micro-batches") { check_late<llama, mesh<dp>>({}, small_llama); }

TEST_CASE("late: recomputation, fp16 whose first steps overflow") {
  check_late<llama, mesh<dp>, fp16_from_above, checkpoint_full>({}, small_llama, adamw{}, 3);
}

TEST_CASE("late: zero3, tensor parallelism, bf16, selective recomputation") {
  check_late<llama, mesh<dp, tp>, zero3, bf16_mixed, checkpoint_selective>({.dp = 2, .tp = 2}, small_llama);
}

TEST_CASE("late: launch_options.check, which waits, finds nothing") {
  struct in_host_memory : late_backend {
    static memory_source memory() { return {}; }
  };
  using model = llama<strategy<mesh<dp, tp>, zero2, in_host_memory>>;
  const auto plain = train<model>({.dp = 2, .tp = 2}, small_llama, adamw{});
  CHECK((train<model>({.dp = 2, .tp = 2}, small_llama, adamw{}, {.check = true}) == plain));
}

}  // namespace
