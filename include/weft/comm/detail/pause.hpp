// What a rank does between two looks at what it waits for, where nothing wakes it.
// Invariant: the longer nothing moves, the less of the core it takes, and the next look is half a millisecond off at
// most, as far as it depends on this rank.
#pragma once

#include <weft/core/requirements.hpp>

#include <chrono>
#include <thread>

namespace weft::detail {

/// Lets others have the core for a moment: by a yield while that comes back at once. Where it doesn't, somebody else
/// has work for the core, and would have a whole slice of it at every look; who sleeps instead is let in sooner.
class turn {
 public:
  void give() {
    using clock = std::chrono::steady_clock;
    if (crowded_) return std::this_thread::sleep_for(std::chrono::microseconds(50));
    const auto before = clock::now();
    std::this_thread::yield();
    crowded_ = clock::now() - before > std::chrono::microseconds(200);
  }

 private:
  bool crowded_ = false;
};

class pause {
 public:
  /// After a look, in which something moved or nothing did.
  void after(bool moved) {
    looks_ = moved ? 0 : looks_ + 1;
    if (looks_ < 64)
      turn_.give();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(looks_ < 2000 ? 50 : 500));
  }

 private:
  turn turn_;
  int looks_ = 0;
};

}  // namespace weft::detail
