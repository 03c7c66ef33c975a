#include "weft/comm/single_rank.hpp"

#include <doctest/doctest.h>

#include "weft/testing/communicator.hpp"

static_assert(weft::communicator_policy<weft::single_rank>);

TEST_CASE("self obeys the laws of a communicator") { weft::testing::check_communicator<weft::single_rank>(1, 7); }

TEST_CASE("self names its mistakes") {
  weft::single_rank c;
  int x = 0;
  CHECK_THROWS_WITH_AS(weft::single_rank::launch(2, [](weft::single_rank&) {}),
                       "the communicator self has 1 rank, not 2; use threads for more.", weft::failure);
  CHECK_THROWS_AS(c.broadcast(&x, 4, 1).wait(), weft::failure);
  CHECK_THROWS_AS(c.all_gather(&x, nullptr, 4).wait(), weft::failure);
  CHECK_THROWS_AS(c.all_gather(&x, &x, -1).wait(), weft::failure);
  CHECK_THROWS_WITH_AS(c.send(&x, 4, 0).wait(),
                       "a rank waits for a send to itself whose other half was not called yet; call both, then wait.",
                       weft::failure);
  weft::single_rank d;
  weft::request sent = d.send(&x, 4, 0);
  CHECK_FALSE(sent.test());
  CHECK_THROWS_WITH_AS(d.recv(&x, 2, 0).wait(), "a rank sends itself 4 bytes and receives 2; make the two sizes equal.",
                       weft::failure);
  int y = 1;
  d.recv(&y, 4, 0).wait();
  CHECK(sent.test());
  CHECK(y == 0);
}
