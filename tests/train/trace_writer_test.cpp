#include <thread>

#include <weft/comm/single_rank.hpp>
#include <weft/comm/threads.hpp>
#include <weft/comm/traced.hpp>
#include <weft/train/trace_writer.hpp>

#include "../temporary.hpp"
#include "trace_checks.hpp"

using namespace weft;

TEST_CASE("overlapping collectives of an axis get threads of their own") {
  arena memory;
  span_log log(memory);
  const std::vector<trace_event> events{
      {"all_gather", "dp", "", 64, 32, 10, -1, 30},
      {"reduce_scatter", "dp", "", 64, 32, 20, -1, 40},  // crosses the first
      {"all_gather", "dp", "", 8, 4, 30, -1, 35},        // after the first, inside the second
      {"all_reduce", "tp \"x\"", "", 16, 16, 12, -1, 50},
      {"never ended", "dp", "", 1, 1, 60, -1, -1},
  };
  const auto trace =
      weft_test::read_trace("{\"traceEvents\":[" + trace_events_json(3, "dp 1", log, {"world", "dp"}, &events) + "]}");
  CHECK(trace.threads.at({3, 0}) == "compute");
  CHECK(trace.threads.at({3, 2000}) == "collectives dp");
  CHECK(trace.threads.at({3, 2001}) == "collectives dp (2)");
  CHECK(trace.threads.at({3, 3000}) == "collectives tp \"x\"");
  CHECK(trace.events.at({3, 2000}).size() == 2);
  CHECK(trace.events.at({3, 2001}).size() == 1);
  CHECK(trace.events.at({3, 3000}).at(0).at("args").at("bytes") == 16);
  CHECK(trace.events.at({3, 2001}).at(0).at("ts") == 20.0);
  CHECK(trace.events.at({3, 2001}).at(0).at("dur") == 20.0);
  CHECK(trace.names.count("never ended") == 0);
}

TEST_CASE("bug: ranks number their tracks by first use, so one number means two axes") {
  arena memory;
  const span_log log(memory);
  const std::vector<trace_event> first{{"all_gather", "dp", "", 8, 4, 0, -1, 1}, {"send", "pp", "", 8, 4, 2, -1, 3}};
  const std::vector<trace_event> other{{"recv", "pp", "", 8, 4, 0, -1, 1}, {"all_gather", "dp", "", 8, 4, 2, -1, 3}};
  const std::vector<std::string> axes{"world", "dp", "pp"};
  const auto trace = weft_test::read_trace("{\"traceEvents\":[" + trace_events_json(0, "", log, axes, &first) + "," +
                                           trace_events_json(1, "", log, axes, &other) + "]}");
  for (const int rank : {0, 1}) {
    CHECK(trace.threads.at({rank, 2000}) == "collectives dp");
    CHECK(trace.threads.at({rank, 3000}) == "collectives pp");
  }
}

TEST_CASE("a collective says what it is for, and how long the rank waited for it") {
  arena memory;
  span_log log(memory);
  const std::vector<trace_event> events{{"all_gather", "dp", "weights of layer 3", 64, 32, 10, 25, 30, "model.cpp:34"},
                                        {"barrier", "dp", "", 0, 0, 40, -1, 41},
                                        {"all_reduce", "dp", "all_reduce of [batch]", 8, 8, 50, -1, 51}};
  const auto trace =
      weft_test::read_trace("{\"traceEvents\":[" + trace_events_json(0, "", log, {"dp"}, &events) + "]}");
  const auto& gathered = trace.events.at({0, 1000}).at(0);
  CHECK(gathered.at("name") == "all_gather weights of layer 3");
  CHECK(trace.events.at({0, 1000}).at(2).at("name") == "all_reduce of [batch]");  // and not twice all_reduce
  CHECK(gathered.at("args").at("operation") == "all_gather");
  CHECK(gathered.at("args").at("for") == "weights of layer 3");
  CHECK(gathered.at("args").at("axis") == "dp");
  CHECK(gathered.at("args").at("at") == "model.cpp:34");
  REQUIRE(trace.events.at({0, 0}).size() == 1);  // the barrier was never waited for
  const auto& waited = trace.events.at({0, 0}).at(0);
  CHECK(waited.at("name") == "wait for all_gather weights of layer 3");
  CHECK(waited.at("ts") == 25.0);
  CHECK(waited.at("dur") == 5.0);
}

TEST_CASE("spans nest, and memory is sampled where it changes") {
  arena memory;
  span_log log(memory);
  log.units = {"embedding"};
  CHECK(log.unit_name(0) == "embedding");
  CHECK(log.unit_name(4) == "unit 4");
  arena::handle held;
  {
    const scoped_span outer(&log, "step", 1);
    held = memory.allocate(1000, weft::memory::gradients);
    {
      const scoped_span inner(&log, "backward");
      log.begin("left open by an exception");
    }
    const scoped_span next(&log, "optimizer");
  }
  const scoped_span nowhere(nullptr, "nobody asks");
  CHECK(log.depth() == 0);
  REQUIRE(log.spans().size() == 4);
  for (const span& s : log.spans()) CHECK(s.end_us >= s.begin_us);
  CHECK(log.spans()[0].name == "step 1");
  CHECK(log.spans()[0].end_us >= log.spans()[3].end_us);
  CHECK(log.samples().size() == 2);
  CHECK(log.samples().back().bytes[static_cast<std::size_t>(weft::memory::gradients)] == 1024);

  const auto trace = weft_test::read_trace("{\"traceEvents\":[" + trace_events_json(0, "", log, {}, nullptr) + "]}");
  CHECK(trace.counters.at(0).back().at("args").at("gradients") == 1024);
  CHECK(trace.events.at({0, 0}).size() == 4);
}

TEST_CASE("only the steps of the window are traced") {
  context ctx(any_communicator(), 1);
  trace_log collectives(1);
  const weft_test::temporary_folder folder;
  {
    step_tracer tracer(ctx, {.first = 2, .last = 3, .collectives = &collectives}, true);
    for (int step = 1; step <= 5; ++step) {
      tracer.before(step);
      CHECK((ctx.spans != nullptr) == (step == 2 || step == 3));
      const scoped_span whole(ctx.spans, "step", step);
      collectives.recorder(0).record("barrier", "world", {}, step, 0, [] { return request(); }).wait();
      if (step != 3)
        tracer.after(step);
      else {
        ctx.spans->end();
        tracer.after(step);
      }
    }
    CHECK(tracer.log().spans().size() == 2);
    write_trace(ctx, tracer.log(), tracer.collectives(), folder / "trace.json");
  }
  REQUIRE(collectives.events(0).size() == 2);
  CHECK(collectives.events(0)[0].bytes == 2);
  CHECK(weft_test::read_trace(read_file(folder / "trace.json")).names ==
        std::set<std::string>{"barrier", "wait for barrier", "step 2", "step 3"});

  step_tracer off(ctx, {}, false);
  off.before(3);
  CHECK(ctx.spans == nullptr);
}

TEST_CASE("the clock of another rank: none is ahead where one clock would do, else by the shortest question") {
  using weft::detail::clock_reading;
  const clock_reading one_clock[] = {{100, 900, 1000}, {2000, 2005, 2010}};
  CHECK(weft::detail::clock_ahead(one_clock, 2) == 0);
  const clock_reading other[] = {{100, 5900, 1000}, {2000, 7005, 2010}, {3000, 8400, 3500}};
  CHECK(weft::detail::clock_ahead(other, 3) == 5000);
  const clock_reading behind[] = {{9000, 1010, 9020}};
  CHECK(weft::detail::clock_ahead(behind, 1) == -8000);
}

TEST_CASE("ranks whose logs begin at other moments are aligned in one file") {
  constexpr int ranks = 3;
  const weft_test::temporary_folder folder;
  threads::launch(ranks, [&](threads& world) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30 * world.rank()));
    trace_log own(ranks);  // as a process has one
    traced<threads> seen(world, own);
    context ctx(seen, 1);
    const span_log spans(ctx.memory);
    for (int i = 0; i < 5; ++i) ctx.world.barrier({"meeting", {}, {}, i}).wait();
    own.pause(ctx.rank().here());
    write_trace(ctx, spans, &own, folder / "trace.json");
  });
  const auto trace = weft_test::read_trace(read_file(folder / "trace.json"));
  for (std::size_t i = 0; i < 5; ++i) {  // nobody leaves a barrier before the last has come
    double last_come = -1e300, first_left = 1e300;
    for (int r = 0; r < ranks; ++r) {
      const auto& e = trace.events.at({r, 1000}).at(i);
      const double begin = e.at("ts");
      last_come = std::max(last_come, begin);
      first_left = std::min(first_left, begin + e.at("dur").get<double>());
    }
    CHECK(last_come <= first_left);
  }
}
