// Dynamic loss scaling: which steps are taken, and how the scale moves.
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
  for (int i = 0; i < 200; ++i) CHECK(!s.accept(false));
  CHECK(s.value() > 0);
}

TEST_CASE("without scaling every step is taken") {
  weft::loss_scale s(0);
  CHECK(s.value() == 1);
  CHECK(s.accept(false));
  CHECK(s.value() == 1);
}
