// Processes write one trace, on one clock.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <weft/comm/mpi.hpp>
#include <weft/io/file.hpp>
#include <weft/train/trace_writer.hpp>
#include <weft/weft.hpp>

#include "comm/watch.hpp"
#include "train/trace_checks.hpp"
#include "world.hpp"

using namespace weft;

TEST_CASE("the timelines of all processes are aligned in one file") {
  const watchdog guard("a trace of processes", 300);
  const int ranks = processes();
  const std::string path =
      (std::filesystem::temp_directory_path() / ("weft_trace_of_" + std::to_string(ranks) + ".json")).string();
  trace_log collectives(ranks);  // of this process: its own rank's events are in it
  launch<strategy<mesh<dp>, mpi>>({.dp = ranks},
                                  [&](context& ctx) {
                                    const span_log spans(ctx.memory, collectives.origin());
                                    for (int i = 0; i < 20; ++i) ctx.world.barrier({"meeting"}).wait();
                                    collectives.pause(ctx.rank().here());
                                    write_trace(ctx, spans, &collectives, path);
                                  },
                                  {.trace = &collectives, .check = false});
  if (mpi::process_rank() != 0) return;
  const auto trace = weft_test::read_trace(read_file(path));
  std::filesystem::remove(path);
  for (std::size_t i = 0; i < 20 && ranks > 1; ++i) {  // nobody leaves a barrier before the last has come
    double last_come = -1e300, first_left = 1e300;
    for (int r = 0; r < ranks; ++r) {
      const auto& e = trace.events.at({r, 1000}).at(i);
      const double begin = e.at("ts");
      last_come = std::max(last_come, begin);
      first_left = std::min(first_left, begin + e.at("dur").get<double>());
    }
    CHECK(last_come <= first_left);
  }
  CHECK(trace.threads.count({ranks - 1, 0}) == 1);
}
