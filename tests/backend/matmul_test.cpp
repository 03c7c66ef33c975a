// Matrix products of the CPU beyond their law (products_law_test.cpp): large ones on teams of several sizes, and what
// is refused.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/backend/cpu/matmul.hpp>

#include "matmul_reference.hpp"

using namespace weft;
using namespace weft::cpu;

TEST_CASE("the size of the team does not change a bit of the result") {
  test::random random{9};
  const std::int64_t sizes[][3] = {{150, 200, 1500}, {40, 2000, 100}, {1, 5000, 300}, {3, 1200, 300}, {700, 65, 90}};
  for (auto [m, n, k] : sizes) {
    std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
    for (float& value : a) value = random.uniform();
    for (float& value : b) value = random.uniform();
    const strides sb[] = {{n, 1}, {1, k}};
    for (const strides& layout : sb) {
      std::vector<std::vector<float>> results;
      for (int size : {1, 2, 3, 5}) {
        team cores(size);
        std::vector<float> c(static_cast<std::size_t>(m * n));
        matmul(cores, {1, m, n, k}, a.data(), {k, 1}, b.data(), layout, c.data(), {n, 1}, false);
        results.push_back(c);
      }
      for (const auto& result : results) CHECK(result == results[0]);
    }
  }
}

TEST_CASE("a c that is not contiguous in rows, and negative sizes, are refused") {
  team alone;
  float a[4] = {}, b[4] = {}, c[8] = {};
  CHECK_THROWS_AS(matmul(alone, {1, 2, 2, 2}, a, {2, 1}, b, {2, 1}, c, {4, 2}, false), failure);
  CHECK_THROWS_AS(matmul(alone, {1, -2, 2, 2}, a, {2, 1}, b, {2, 1}, c, {2, 1}, false), failure);
}
