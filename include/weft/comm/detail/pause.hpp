// What a rank does between two looks at what it waits for, where nothing wakes it.
// Invariant: the longer nothing moves, the less of the core it takes, and the next look is half a millisecond off at
// most.
#pragma once

#include <weft/core/requirements.hpp>

#include <chrono>
#include <thread>

namespace weft::detail {

class pause {
 public:
  /// After a look, in which something moved or nothing did.
  void after(bool moved) {
    looks_ = moved ? 0 : looks_ + 1;
    if (looks_ < 64)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(looks_ < 2000 ? 50 : 500));
  }

 private:
  int looks_ = 0;
};

}  // namespace weft::detail
