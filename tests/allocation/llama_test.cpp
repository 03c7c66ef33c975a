// From its third step on, training takes no memory from the system: neither for tensors nor for what is noted about
// them.
#include <doctest/doctest.h>

#include "allocation/training.hpp"

using namespace weft;
using namespace weft_test;

namespace {

const llama_config tiny{.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 64, .vocab = 256, .max_seq = 32};

TEST_CASE("a step of one rank allocates nothing, with workers neither") {
  using model = llama<strategy<mesh<dp, tp>>>;
  check_takes_nothing<model>({}, tiny);
  check_takes_nothing<model>({}, tiny, 2);
}

TEST_CASE("what a rank's thread allocates in a step would be seen") {
  using model = llama<strategy<mesh<dp, tp>>>;
  taken_in_window taken;
  train_watched<model>(taken, {.dp = 2}, tiny, 1, 3);
  CHECK(taken.heap == 2 * 4 * 2 * 3);  // ranks, steps, micro-batches, and what the reader does
}

TEST_CASE("sharded, sequence-parallel, recomputed in bf16: a step allocates nothing") {
  check_takes_nothing<llama<strategy<mesh<dp, tp>, zero3, bf16_mixed, sequence_parallel, checkpoint_full>>>(
      {.dp = 2, .tp = 2}, tiny);
}

TEST_CASE("the loss in chunks: a step allocates nothing") {
  check_takes_nothing<llama<strategy<mesh<dp>, zero3, bf16_mixed, chunked_loss<3>>>>({.dp = 2}, tiny);
}

}  // namespace
