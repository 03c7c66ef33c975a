// Counts what the whole program takes from the heap by operator new, on any thread, and lets one allocation fail. Off
// unless somebody asks.
// Invariant: heap_test.cpp, in the same program, replaces the operators and checks that they count.
#pragma once

#include <atomic>
#include <cstddef>

namespace weft_test {

struct heap_counter {
  static inline std::atomic<bool> on{false};
  static inline std::atomic<long> taken{0};
};

/// Lets one allocation of a thread find no memory: that at which `left`, of those that take `least` bytes or more,
/// comes to 0.
struct heap_failure {
  static inline thread_local long left = 0;
  static inline thread_local std::size_t least = 0;
};

/// Says that memory is used, where a compiler would leave an allocation out that nobody looks at.
inline void look_at(const void* memory) { asm volatile("" : : "g"(memory) : "memory"); }

}  // namespace weft_test
