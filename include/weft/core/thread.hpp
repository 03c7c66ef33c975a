// What a thread does while it waits, and what it is called. Invariant: neither changes what is computed.
#pragma once

#include <cstdio>
#include <thread>

#include <weft/core/linked.hpp>

#if defined(__linux__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace weft::detail {

/// Tells the core that its thread only waits, for about 40 cycles.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// The looks at something that is waited for: first with a pause between them, then giving the core away. How many of
/// each pays depends on whether other threads want the core.
class spin_wait {
 public:
  spin_wait(int pauses, int yields) : pauses_(pauses), looks_(pauses + yields) {}

  /// Waits a moment before the next look; false when it is time to sleep instead.
  bool again() {
    if (looked_ >= looks_) return false;
    if (looked_++ < pauses_)
      relax();
    else
      std::this_thread::yield();
    return true;
  }
  /// Begins anew.
  void reset() { looked_ = 0; }

 private:
  int pauses_, looks_, looked_ = 0;
};

/// Calls this thread "weft rank 3", or "weft rank 3.1" as its core 1, where debuggers show it: as far as 15 characters
/// go, which is what Linux takes. Does nothing where the system has no such names.
[[gnu::cold]] WEFT_LINKED void name_this_thread([[maybe_unused]] int rank, [[maybe_unused]] int core = 0) {
#if defined(__linux__) || defined(__APPLE__)
  char name[40];
  if (core > 0)
    std::snprintf(name, sizeof name, "weft rank %d.%d", rank, core);
  else
    std::snprintf(name, sizeof name, "weft rank %d", rank);
  name[15] = 0;
#if defined(__APPLE__)
  pthread_setname_np(name);
#else
  pthread_setname_np(pthread_self(), name);
#endif
#endif
}

}  // namespace weft::detail
