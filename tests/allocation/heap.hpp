// Counts what the whole program takes from the heap by operator new, calls and bytes, on any thread. Off unless somebody counts.
// Invariant: heap_test.cpp, in the same program, replaces the operators and checks that they count.
#pragma once

#include <atomic>

namespace weft_test {

struct heap_counter {
  static inline std::atomic<bool> on{false};
  static inline std::atomic<long> taken{0}, bytes{0};
};

/// Says that memory is used, where a compiler would leave an allocation out that nobody looks at.
inline void look_at(const void* memory) { asm volatile("" : : "g"(memory) : "memory"); }

}  // namespace weft_test
