// What the programs of bench/compare and their peers agree on: made-up batches, and a gate before each step, which
// opens for a line on stdin and answers with a line of JSON. Invariant: no rank is in a step while the gate is closed.
#pragma once

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <weft/train/trainer.hpp>

namespace compare {

using namespace weft;
using clock = std::chrono::steady_clock;

/// Kibibytes that the kernel counts under a name in /proc/self/status.
inline long status(const char* name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (word == name) {
      long kb = 0;
      file >> kb;
      return kb;
    }
  return 0;
}

/// The most that the process has held; where tensors live on a device, what its arenas and kernels have of that.
template <class Backend>
long peak_kb(context& ctx) {
  if constexpr (Backend::host_memory) return status("VmHWM:");
  const memory_ledger &own = ctx.memory.ledger(), &state = ctx.optimizer_ledger();
  return static_cast<long>((own.reserved + (&state == &own ? 0 : state.reserved) + own.scratch.value_or(0)) / 1024);
}

/// Made-up batches, and the gate: no rank passes to its next step before a line has come in. What lies between two
/// gates is a step, with all that the trainer does in it.
template <class Backend>
class gated_tokens {
 public:
  gated_tokens(int ranks, std::int64_t vocab) : vocab_(vocab), arrived_(ranks), open_(ranks) {}

  template <any_tensor Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t, std::int64_t count, std::int64_t length) const {
    return rows<Ids>(step, count, length);
  }
  bool can_validate(std::int64_t) const { return false; }
  template <any_tensor Ids>
  token_batch<Ids> validation(std::int64_t, std::int64_t count, std::int64_t length) const {
    return rows<Ids>(0, count, length);
  }
  context*& rank() const {
    static thread_local context* mine = nullptr;
    return mine;
  }
  /// Ends the last step.
  void finish() const { wait(*rank(), false); }

 private:
  template <any_tensor Ids>
  token_batch<Ids> rows(std::int64_t step, std::int64_t count, std::int64_t length) const {
    wait(*rank(), true);
    const auto token = [&](std::int64_t i) { return (step * 31 + i * i * 5 + i * 3) % vocab_; };
    return {generate<Ids>(*rank(), {count, length}, token),
            generate<Ids>(*rank(), {count, length}, [&](std::int64_t i) { return token(i + 1); })};
  }
  void wait(context& ctx, bool more) const {
    arrived_.arrive_and_wait();
    if (ctx.is_first()) {
      if (running_) {
        const double seconds = std::chrono::duration<double>(clock::now() - begin_).count();
        std::printf("{\"seconds\": %.6f, \"peak_kb\": %ld}\n", seconds, peak_kb<Backend>(ctx));
      } else {
        std::printf("{\"ready\": true, \"base_kb\": %ld}\n", base_kb);
      }
      std::fflush(stdout);
      if (more && std::getchar() == EOF) std::exit(0);
      running_ = true;
      begin_ = clock::now();
    }
    open_.arrive_and_wait();
  }

 public:
  static inline long base_kb = 0;

 private:
  std::int64_t vocab_;
  mutable std::barrier<> arrived_, open_;
  mutable bool running_ = false;
  mutable clock::time_point begin_;
};

}  // namespace compare
