// Statistics of arrays join. What kernels give of an array is tried in reductions_law_test.cpp.
#include <doctest/doctest.h>

#include <weft/backend/concept.hpp>

using weft::array_statistics;

TEST_CASE("statistics of two arrays join, and scale with the array") {
  array_statistics a{4, -2, 0, 3, 1};
  a.join({9, -1, 3, 2, 0});
  a.join({});
  a.scale(0.5);
  CHECK(a.squares == 13.0 / 4);
  CHECK(a.lowest == -1);
  CHECK(a.highest == 1.5);
  CHECK(a.elements == 5);
  CHECK(a.not_finite == 1);
}
