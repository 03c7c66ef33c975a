// AdamW in place. Against the formula: training_law_test.cpp.
#include <weft/backend/cpu/adamw.hpp>

#include "kernel_testing.hpp"

using namespace weft_test;

TEST_CASE("adamw with the working copy being the master") {
  team t;
  auto a = numbers<float>(100, 3), b = a;
  const auto g = numbers<float>(100, 4);
  std::vector<float> m1(100), v1(100), m2(100), v2(100);
  const weft::adamw_step step{1e-3, 0.9, 0.99, 1e-8, 0.01, 0.1, 0.01, 1};
  weft::cpu::adamw(t, step, 100, weft::decay_ranges::all(100), a.data(), m1.data(), v1.data(), g.data(), a.data());
  weft::cpu::adamw<float, float, float>(t, step, 100, weft::decay_ranges::all(100), b.data(), m2.data(), v2.data(),
                                        g.data(), nullptr);
  CHECK(same_bits(a, b));
}
