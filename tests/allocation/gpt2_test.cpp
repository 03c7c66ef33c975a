// As llama_test.cpp, for GPT-2: biases, LayerNorm, dropout, tied embeddings.
#include <doctest/doctest.h>

#include <weft/nn/gpt2.hpp>

#include "allocation/training.hpp"

using namespace weft;
using namespace weft_test;

namespace {

const gpt2_config tiny{.layers = 2, .hidden = 32, .heads = 4, .vocab = 256, .max_seq = 32, .dropout = 0.2};

TEST_CASE("a step of GPT-2 with dropout allocates nothing") {
  check_takes_nothing<gpt2<strategy<mesh<dp, tp>>>>({.dp = 2, .tp = 2}, tiny);
  check_takes_nothing<gpt2<strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full>>>({.dp = 2, .tp = 2}, tiny);
}

}  // namespace
