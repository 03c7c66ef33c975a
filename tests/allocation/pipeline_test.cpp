// As llama_test.cpp, over pipeline stages: activations sent on, backwards whole and in two parts.
#include <doctest/doctest.h>

#include "allocation/training.hpp"
#include "policy/in_parts.hpp"

using namespace weft;
using namespace weft_test;

namespace {

const llama_config tiny{.layers = 4,
                        .hidden = 32,
                        .heads = 4,
                        .kv_heads = 2,
                        .ffn = 64,
                        .vocab = 256,
                        .max_seq = 32,
                        .tied_embeddings = true};

TEST_CASE("a step of a pipeline allocates nothing on any stage") {
  check_takes_nothing<llama<strategy<mesh<pp, dp>, zero1>>>({.dp = 2, .pp = 2}, tiny);
}

TEST_CASE("a step of a pipeline whose backwards are in two parts allocates nothing on any stage") {
  check_takes_nothing<llama<strategy<mesh<pp, dp>, zero1, checkpoint_full, in_parts>>>({.dp = 2, .pp = 2}, tiny);
}

TEST_CASE("a step of a pipeline that recomputes selectively allocates nothing on any stage") {
  check_takes_nothing<llama<strategy<mesh<pp, dp>, zero2, fp16_mixed, checkpoint_selective>>>({.dp = 2, .pp = 2}, tiny);
}

TEST_CASE("a step of a pipeline with two virtual stages a rank allocates nothing on any rank") {
  check_takes_nothing<llama<strategy<mesh<pp, dp>, zero3, zbv>>>({.dp = 2, .pp = 2}, tiny);
}

}  // namespace
