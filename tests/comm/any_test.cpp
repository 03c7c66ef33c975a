#include "weft/comm/any.hpp"

#include <doctest/doctest.h>

#include "sample.hpp"
#include "weft/comm/threads.hpp"
#include "weft/comm/traced.hpp"
#include "weft/testing/communicator.hpp"

static_assert(weft::communicator<weft::any_communicator>);
static_assert(weft::communicator<weft::traced<weft::any_communicator>>);

TEST_CASE("any_communicator obeys the laws of a communicator") {
  for (int ranks : weft_test::sampled_ranks({1, 3, 4})) {
    CAPTURE(ranks);
    const auto start = [ranks](auto f) {
      weft::threads::launch(ranks, [&](weft::threads& world) {
        weft::any_communicator any = world;
        f(any);
      });
    };
    weft::testing::check_communicator_of(start, 300 + static_cast<unsigned>(ranks));
  }
}

TEST_CASE("a default any_communicator is alone") {
  weft::any_communicator any;
  CHECK(any.rank() == 0);
  CHECK(any.size() == 1);
  float in = 3, out = 0;
  any.all_reduce(&in, &out, 1, weft::dtype::f32, weft::reduction::sum).wait();
  CHECK(out == 3);
}
