// The clocks by which `paced` goes: the machine's, or a rank's own logical one, on which every run takes the same time.
// Invariant: neither goes back while a launch lasts.
#pragma once

#include <weft/core/requirements.hpp>

#include <chrono>
#include <cstdint>
#include <thread>

namespace weft {

/// The machine's time, nanoseconds from a moment that all ranks of a machine share.
struct wall_clock {
  static void begin() {}
  static std::int64_t now() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  /// Whether it is `moment` or later.
  static bool reached(std::int64_t moment) { return now() >= moment; }
  static void wait_until(std::int64_t moment) {
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(moment)));
  }
};

/// A rank's logical time, nanoseconds from the begin of its launch. It passes where `advance` says what something costs
/// and where the rank waits for a link, and nowhere else: how busy the machine is doesn't show. Each thread has its
/// own.
struct virtual_clock {
  static void begin() { time() = 0; }
  static std::int64_t now() { return time(); }
  /// The rank computes for so long.
  static void advance(std::chrono::nanoseconds duration) { time() += duration.count(); }
  /// Who asks whether a moment has come waits for it: asking again takes no time, and would never end.
  static bool reached(std::int64_t moment) { return wait_until(moment), true; }
  static void wait_until(std::int64_t moment) { time() = time() < moment ? moment : time(); }

 private:
  static std::int64_t& time() {
    static thread_local std::int64_t of_this_rank = 0;
    return of_this_rank;
  }
};

}  // namespace weft
