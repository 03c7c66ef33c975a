// Dynamic loss scaling: which steps are taken, how the scale moves, and which scales are refused.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <weft/optim/loss_scale.hpp>

TEST_CASE("an overflow halves the scale and skips the step; patience doubles it") {
  weft::loss_scale s(8, 3);
  CHECK(s.dynamic());
  CHECK(s.accept(true));
  CHECK(!s.accept(false));
  CHECK(s.value() == 4);
  CHECK(s.skipped() == 1);
  for (int i = 0; i < 2; ++i) CHECK(s.accept(true));
  CHECK(s.value() == 4);
  CHECK(s.accept(true));  // the third good step in a row
  CHECK(s.value() == 8);
}

TEST_CASE("at its floor a scale has no part in gradients that are not finite") {
  weft::loss_scale s(1024, 2);
  for (int i = 0; i < 34; ++i) CHECK(!s.accept(false));
  CHECK(s.value() == weft::loss_scale::lowest);
  CHECK(s.accept(false));
  CHECK(s.value() == weft::loss_scale::lowest);
  CHECK(s.skipped() == 34);
  CHECK(s.accept(true));
  CHECK(s.accept(true));
  CHECK(s.value() == 2 * weft::loss_scale::lowest);
  CHECK(!s.accept(false));
}

TEST_CASE("without scaling every step is taken") {
  weft::loss_scale s;
  CHECK(!s.dynamic());
  CHECK(s.value() == 1);
  CHECK(s.accept(false));
  CHECK(s.value() == 1);
}

TEST_CASE("a scale that is none is refused") {
  for (const double bad : {0.0, -1.0, -1024.0, 1e-30, 1e300, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_WITH_AS(weft::loss_scale{bad}, doctest::Contains("a loss scale is a number from 2^-24 to 2^24"),
                         weft::failure);
  CHECK_THROWS_WITH_AS((weft::loss_scale{8, 0}), doctest::Contains("patience is 0"), weft::failure);
}
