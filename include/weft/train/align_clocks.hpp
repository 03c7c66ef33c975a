// One clock for the events of all ranks, which may be processes of several machines. Invariant: ranks of one machine,
// whose steady clock is one, are aligned exactly; others to half a message's round trip (Cristian 1989).
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>

#include <weft/tensor/context.hpp>

namespace weft::detail {

/// Nanoseconds of the steady clock, which counts from some moment of its own on each machine.
inline std::int64_t nanoseconds_of(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

/// What a question for the other's clock found: when it was asked, what the other's clock said, when that was here.
struct clock_reading {
  std::int64_t asked, other, answered;
};
/// How far the other's clock is ahead, by the reading that took the shortest; 0 where that is compatible with one
/// clock.
WEFT_LINKED std::int64_t clock_ahead(const clock_reading* readings, int count) {
  clock_reading best = readings[0];
  for (int i = 1; i < count; ++i)
    if (readings[i].answered - readings[i].asked < best.answered - best.asked) best = readings[i];
  const bool one_clock = best.asked <= best.other && best.other <= best.answered;
  return one_clock ? 0 : best.other - best.asked - (best.answered - best.asked) / 2;
}

/// Microseconds to add to times since `origin` on this rank, so that they are times since the first rank's `origin`.
/// All ranks call it.
WEFT_LINKED double to_first_ranks_time(context& ctx, std::chrono::steady_clock::time_point origin) {
  any_communicator host = ctx.world.host();
  constexpr int rounds = 8;
  std::int64_t first_origin = nanoseconds_of(origin), ahead = 0;
  const auto now = [] { return nanoseconds_of(std::chrono::steady_clock::now()); };
  for (int r = 1; r < ctx.size(); ++r) {
    if (ctx.rank() != r && !ctx.is_first()) continue;
    clock_reading readings[rounds] = {};
    std::int64_t answer = 0;
    for (clock_reading& reading : readings) {
      if (ctx.is_first()) {
        host.recv(&answer, sizeof answer, r, 0, {"question for the time"}).wait();
        answer = now();
        host.send(&answer, sizeof answer, r, 0, {"time"}).wait();
      } else {
        reading.asked = now();
        host.send(&reading.asked, sizeof reading.asked, 0, 0, {"question for the time"}).wait();
        host.recv(&reading.other, sizeof reading.other, 0, 0, {"time"}).wait();
        reading.answered = now();
      }
    }
    ahead = clock_ahead(readings, rounds);
  }
  host.broadcast(&first_origin, sizeof first_origin, 0, {"origin of times"}).wait();
  return static_cast<double>(nanoseconds_of(origin) + ahead - first_origin) / 1000;
}

}  // namespace weft::detail
