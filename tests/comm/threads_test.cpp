#include "weft/comm/threads.hpp"

#include "laws.hpp"

static_assert(weft::communicator_policy<weft::threads>);

TEST_CASE("threads obey the laws of a communicator") {
  for (int ranks : {1, 2, 3, 4, 7, 8}) {
    CAPTURE(ranks);
    laws::all([ranks](auto f) { weft::threads::launch(ranks, f); }, 100 + static_cast<unsigned>(ranks));
  }
}
