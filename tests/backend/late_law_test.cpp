// The installed laws of backends on one whose queue lags: so they hold nothing that isn't waited for. And the lag
// itself.
#include <doctest/doctest.h>

#include <weft/testing/backend.hpp>

#include "late_backend.hpp"

namespace {
using namespace weft_test;

TEST_CASE("the laws hold on a queue that runs behind its host") {
  CHECK_NOTHROW(weft::testing::check_backend<late_backend, float, weft::bf16>(2).require_complete());
}

TEST_CASE("a queue that runs behind does nothing before the host waits, and then all of it in order") {
  late_queue q;
  std::vector<int> done;
  for (int i = 0; i < 5; ++i) q.enqueue([&, i] { done.push_back(i); });
  CHECK(q.to_come() == 5);
  CHECK(done.empty());
  q.synchronize();
  CHECK(done == std::vector<int>{0, 1, 2, 3, 4});
  q.enqueue([] { weft::fail("a kernel failed"); });
  q.enqueue([&] { done.push_back(5); });
  CHECK_THROWS_WITH_AS(q.synchronize(), "a kernel failed", weft::failure);
  CHECK(done.size() == 5);  // what came after the failure was not run
  q.synchronize();
  CHECK(q.waits() == 2);  // there was nothing to wait for
  // The host's memory is read when the call is made, the backend's when it is its turn.
  double host = 1, there = 0, seen = 0;
  late_backend::upload(q, &host, &there, sizeof host);
  host = 2;
  late_backend::copy_bytes(q, &there, &seen, sizeof there);
  CHECK(there == 0);
  late_backend::download(q, &seen, &host, sizeof host);
  CHECK(host == 1);
}

}  // namespace
