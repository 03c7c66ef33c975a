// A watchdog for tests that would hang if what they test were wrong: it ends the process with a message.
// Invariant: nothing is kept alive: what hangs can't be ended from within.
#pragma once

#include <weft/core/requirements.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace weft::testing {

/// Ends the process after so many seconds, unless it is destroyed before. `what` outlives it.
class watchdog {
 public:
  explicit watchdog(const char* what, int seconds = 120)
      : thread_([this, what, seconds] {
          std::unique_lock lock(mutex_);
          if (done_.wait_for(lock, std::chrono::seconds(seconds), [this] { return over_; })) return;
          std::fprintf(stderr, "hangs: %s\n", what);
          std::abort();
        }) {}
  ~watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    done_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace weft::testing
