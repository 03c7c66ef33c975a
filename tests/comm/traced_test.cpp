#include "weft/comm/traced.hpp"

#include <doctest/doctest.h>

#include "sample.hpp"
#include "weft/comm/single_rank.hpp"
#include "weft/comm/threads.hpp"
#include "weft/testing/communicator.hpp"

using traced_threads = weft::traced<weft::threads>;

static_assert(weft::communicator_policy<traced_threads>);
static_assert(weft::communicator_policy<weft::traced<weft::single_rank>>);

TEST_CASE("traced threads obey the laws of a communicator") {
  for (int ranks : weft_test::sampled_ranks({2, 3, 8})) {
    CAPTURE(ranks);
    weft::testing::check_communicator<traced_threads>(ranks, 200 + static_cast<unsigned>(ranks));
  }
}

TEST_CASE("a trace says what moved, on which axis, and when") {
  constexpr int ranks = 4;
  weft::trace_log log(ranks);
  traced_threads::launch(ranks, log, [](traced_threads& world) {
    traced_threads tp = world.split(world.rank() / 2, world.rank(), "tp");
    float in[40] = {}, out[40];
    weft::request first = world.all_reduce(in, out, 7, weft::dtype::f32, weft::reduction::sum);
    tp.all_gather(in, in + 20, 12).wait();
    first.wait();
    tp.all_reduce(in, out, 6, weft::dtype::bf16, weft::reduction::sum).wait();
    tp.all_reduce(in, out, 6, weft::dtype::bf16, weft::reduction::sum).wait();
    world.reduce_scatter(in, out, 5, weft::dtype::f32, weft::reduction::max).wait();
    world.all_to_all(in, out, 8).wait();
    world.broadcast(in, 16, 1).wait();
    weft::request sent = tp.send(in, 10, 1 - tp.rank(), 0);
    tp.recv(out, 10, 1 - tp.rank(), 0).wait();
    sent.wait();
    world.barrier().wait();
    CHECK(world.log().events(world.rank()).size() == 10);
  });
  std::int64_t all_reduced = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    const auto of = [&](const char* operation, const char* axis) { return log.total(rank, operation, axis); };
    CHECK(of("all_reduce", "world").bytes == 28);
    all_reduced += of("all_reduce", "world").wire_bytes;
    CHECK(of("all_reduce", "tp").calls == 2);
    CHECK(of("all_reduce", "tp").bytes == 24);
    CHECK(of("all_reduce", "tp").wire_bytes == 24);  // 2 · (P-1)/P · n with P = 2
    CHECK(of("all_gather", "tp").bytes == 24);
    CHECK(of("all_gather", "tp").wire_bytes == 12);
    CHECK(of("reduce_scatter", "world").bytes == 80);
    CHECK(of("reduce_scatter", "world").wire_bytes == 60);
    CHECK(of("all_to_all", "world").bytes == 32);
    CHECK(of("all_to_all", "world").wire_bytes == 24);
    CHECK(of("broadcast", "world").wire_bytes == (rank == 1 ? 0 : 16));
    CHECK(of("send", "tp").bytes == 10);
    CHECK(of("send", "tp").wire_bytes == 0);
    CHECK(of("recv", "tp").wire_bytes == 10);
    CHECK(of("barrier", "world").calls == 1);
    CHECK(of("barrier", "tp").calls == 0);
    CHECK(log.totals(rank).size() == 9);
    const auto& events = log.events(rank);
    for (const weft::trace_event& event : events) CHECK(event.end_us >= event.begin_us);
    // the first all_reduce was waited for after the all_gather that began later
    CHECK(events[0].begin_us <= events[1].begin_us);
    CHECK(events[0].end_us >= events[1].end_us);
    CHECK(events[0].wait_us >= events[1].end_us);
    for (const weft::trace_event& event : events)
      CHECK((event.begin_us <= event.wait_us && event.wait_us <= event.end_us));
  }
  CHECK(all_reduced == 2 * (ranks - 1) * 28);
  log.clear(2);
  CHECK(log.events(2).empty());
  CHECK_THROWS_AS(log.events(4), weft::failure);
  CHECK_THROWS_AS(traced_threads::launch(5, log, [](traced_threads&) {}), weft::failure);
}

TEST_CASE("a trace shows what never ended") {
  weft::trace_log log(2);
  CHECK_THROWS_WITH(traced_threads::launch(2, log,
                                           [](traced_threads& world) {
                                             if (world.rank() == 1) throw weft::failure("rank one");
                                             world.barrier().wait();
                                           }),
                    "rank one");
  REQUIRE(log.events(0).size() <= 1);  // none if rank 1 threw before rank 0 called
  for (const weft::trace_event& event : log.events(0)) CHECK(event.end_us == -1);
}
