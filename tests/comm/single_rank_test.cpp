#include "weft/comm/single_rank.hpp"

#include <doctest/doctest.h>

#include "weft/testing/communicator.hpp"

static_assert(weft::communicator_policy<weft::single_rank>);

TEST_CASE("single_rank obeys the laws of a communicator") {
  weft::testing::check_communicator<weft::single_rank>(1, 7);
}

TEST_CASE("single_rank names its mistakes") {
  weft::single_rank c;
  int x = 0;
  CHECK_THROWS_WITH_AS(weft::single_rank::launch(2, [](weft::single_rank&) {}),
                       "the communicator single_rank has 1 rank, not 2; use threads for more.", weft::failure);
  CHECK_THROWS_AS(c.broadcast(&x, 4, 1).wait(), weft::failure);
  CHECK_THROWS_AS(c.all_gather(&x, nullptr, 4).wait(), weft::failure);
  CHECK_THROWS_AS(c.all_gather(&x, &x, -1).wait(), weft::failure);
  CHECK_THROWS_WITH_AS(c.send(&x, 4, 0, 0).wait(),
                       "a rank waits for a send to itself whose other half was not called yet; call both, then wait.",
                       weft::failure);
  weft::single_rank d;
  weft::request sent = d.send(&x, 4, 0, 0);
  CHECK_FALSE(sent.test());
  CHECK_THROWS_WITH_AS(d.recv(&x, 2, 0, 0).wait(),
                       "a rank sends itself 4 bytes and receives 2; make the two sizes equal.", weft::failure);
  int y = 1;
  d.recv(&y, 4, 0, 0).wait();
  CHECK(sent.test());
  CHECK(y == 0);
  x = 3;
  const int z = 4;
  weft::request first = d.send(&x, 4, 0, 1), second = d.send(&z, 4, 0, 2);
  d.recv(&y, 4, 0, 2).wait();
  CHECK(y == 4);
  CHECK_FALSE(first.test());
  d.recv(&y, 4, 0, 1).wait();
  CHECK(y == 3);
  CHECK_THROWS_WITH_AS(d.send(&x, 4, 0, -2).wait(), "send has the tag -2; tags are 0 to 32767.", weft::failure);
}
