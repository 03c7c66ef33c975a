// What reductions of the CPU refuse, and give of nothing. All else is tried in reductions_law_test.cpp.
#include <weft/backend/cpu/reduce.hpp>

#include "kernel_testing.hpp"

using namespace weft_test;
using weft::reduce;

TEST_CASE("reduce of nothing gives the neutral element, and more than 8 dimensions are refused") {
  team t;
  const int64 e[9] = {3, 0, 1, 1, 1, 1, 1, 1, 1};
  const bool reduced[9] = {false, true};
  std::vector<float> y(3, 7.0f);
  weft::cpu::reduce_dims<reduce::sum, float>(t, 2, e, reduced, nullptr, y.data(), false);
  CHECK(y == std::vector<float>{0, 0, 0});
  weft::cpu::reduce_dims<reduce::max, float>(t, 2, e, reduced, nullptr, y.data(), false);
  CHECK(y == std::vector<float>(3, -INFINITY));
  CHECK_THROWS_AS((weft::cpu::reduce_dims<reduce::sum, float>(t, 9, e, reduced, nullptr, y.data(), false)),
                  weft::failure);
  CHECK_THROWS_AS((weft::cpu::repeat<float>(t, 9, e, reduced, nullptr, y.data(), false)), weft::failure);
}
