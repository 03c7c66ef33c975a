// Threads obey the laws of a communicator.
#include <doctest/doctest.h>

#include <weft/comm/threads.hpp>
#include <weft/testing/communicator.hpp>

#include "sample.hpp"

static_assert(weft::communicator_policy<weft::threads>);

TEST_CASE("threads obey the laws of a communicator") {
  for (const int ranks : weft_test::sampled_ranks({1, 2, 3, 4, 7, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(weft::testing::check_communicator<weft::threads>(ranks, 100 + static_cast<unsigned>(ranks)));
  }
}
