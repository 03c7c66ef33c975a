#include "weft/comm/self.hpp"

#include "laws.hpp"

static_assert(weft::communicator_policy<weft::self>);

TEST_CASE("self obeys the laws of a communicator") {
  laws::all([](auto f) { weft::self::launch(1, f); }, 7);
}

TEST_CASE("self names its mistakes") {
  weft::self c;
  int x = 0;
  CHECK_THROWS_WITH_AS(weft::self::launch(2, [](weft::self&) {}),
                       "the communicator self has 1 rank, not 2; use threads for more.", weft::error);
  CHECK_THROWS_AS(c.broadcast(&x, 4, 1).wait(), weft::error);
  CHECK_THROWS_AS(c.all_gather(&x, nullptr, 4).wait(), weft::error);
  CHECK_THROWS_AS(c.all_gather(&x, &x, -1).wait(), weft::error);
  CHECK_THROWS_WITH_AS(c.send(&x, 4, 0).wait(),
                       "a rank waits for a send to itself whose other half was not called yet; call both, then wait.",
                       weft::error);
  weft::self d;
  weft::request sent = d.send(&x, 4, 0);
  CHECK_FALSE(sent.test());
  CHECK_THROWS_WITH_AS(d.recv(&x, 2, 0).wait(), "a rank sends itself 4 bytes and receives 2; make the two sizes equal.",
                       weft::error);
  int y = 1;
  d.recv(&y, 4, 0).wait();
  CHECK(sent.test());
  CHECK(y == 0);
}
