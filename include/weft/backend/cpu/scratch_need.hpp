// What a call of a kernel takes of scratch memory, as numbers: the kernel takes so much, and a plan of it counts so
// much, by one function of the call's sizes. Invariant: a need is what scratch stacks have in use at once, at most.
#pragma once

#include <weft/core/requirements.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::cpu {

/// Bytes on the stack of the thread that calls a kernel, and on that of each thread that shares the kernel's loops.
struct scratch_need {
  std::size_t caller = 0, worker = 0;

  /// The more of two calls, one after the other.
  constexpr void join(const scratch_need& other) {
    caller = std::max(caller, other.caller);
    worker = std::max(worker, other.worker);
  }
  /// What a rank with so many threads keeps, once it has had this need.
  constexpr std::size_t kept(int threads) const {
    return caller + (threads > 1 ? static_cast<std::size_t>(threads) * worker : 0);
  }
};

namespace detail {

/// What a scratch buffer of `count` elements takes of its stack: whole lines of 64 bytes.
constexpr std::size_t scratch_lines(std::int64_t count, std::size_t element) {
  return (static_cast<std::size_t>(count) * element + 63) / 64 * 64;
}
/// A loop of so many tasks that take `bytes` each, on a team of `threads`, while the caller holds `held`: a loop of one
/// task, or of a team of one, runs on the caller.
constexpr scratch_need loop_need(int threads, std::int64_t tasks, std::size_t bytes, std::size_t held = 0) {
  if (tasks <= 0) return {held, 0};
  return threads > 1 && tasks > 1 ? scratch_need{held, bytes} : scratch_need{held + bytes, 0};
}

}  // namespace detail
}  // namespace weft::cpu
