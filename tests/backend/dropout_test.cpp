// How much dropout drops, and what it refuses. Its mask, element by element: training_law_test.cpp.
#include <weft/backend/cpu/dropout.hpp>
#include <weft/core/error.hpp>
#include <weft/core/random.hpp>

#include "kernel_testing.hpp"

using namespace weft_test;
using weft::placed_slice;

TEST_CASE("dropout drops the share that was asked for") {
  team t;
  const placed_slice at{1, {100000}, {100000}, {0}};
  const std::vector<float> ones(100000, 1.0f);
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    std::vector<float> y(ones.size());
    weft::cpu::dropout(t, {rate, 1, 2}, at, ones.data(), y.data(), false);
    double kept = 0, sum = 0;
    for (const float v : y) kept += v != 0, sum += static_cast<double>(v);
    // A binomial of 1e5 draws: six standard deviations are 950 at most; the numbers are fixed, so it either holds or
    // not.
    CHECK(std::fabs(kept - 1e5 * (1 - rate)) <= 950);
    CHECK(sum == doctest::Approx(kept / (1 - rate)).epsilon(1e-6));
  }
  std::vector<float> y(ones.size());
  CHECK_THROWS_WITH_AS(weft::cpu::dropout(t, {1.0, 1, 2}, at, ones.data(), y.data(), false),
                       doctest::Contains("a dropout rate is from 0 to below 1, not 1"), weft::failure);
}
