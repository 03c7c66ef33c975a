// What rope refuses. All else is tried in attention_law_test.cpp.
#include <weft/backend/cpu/rope.hpp>

#include "kernel_testing.hpp"

using namespace weft_test;

TEST_CASE("rope of an odd head_dim is refused") {
  team t;
  CHECK_THROWS_AS(weft::cpu::rope<float>(t, 1, 1, 1, 3, nullptr, nullptr, nullptr, 0, false, nullptr, false),
                  weft::failure);
}
