// What ranks tell each other when a step ends. Invariant: a message is posted when its step ends and waited for when
// that step is judged, so that no rank waits for another inside a step.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include <weft/tensor/context.hpp>

namespace weft::detail {

/// Of one step: how much memory the rank that held most has held, and whether some rank was asked to stop.
class step_end {
 public:
  step_end() = default;
  step_end(step_end&&) = default;

  /// All ranks call it where the step ends. `to_all`: their host's side, which outlives the message. A rank alone knows
  /// at once.
  WEFT_LINKED void post(any_communicator& to_all, context& ctx, const std::atomic<bool>* stop) {
    if (!both_) both_ = std::make_unique<std::int64_t[]>(2);
    both_[0] = static_cast<std::int64_t>(ctx.memory.ledger().peak_total), both_[1] = stop && *stop;
    if (ctx.size() == 1) return;
    under_way_ = to_all.all_reduce(both_.get(), both_.get(), 2, dtype::i64, reduction::max, {"peak memory"});
    under_way_.test();  // so that a queue which has to bring it knows where it ends
  }
  /// Once, after which the rest says what all ranks said.
  void wait() { under_way_.wait(); }
  std::int64_t peak_bytes() const { return both_[0]; }
  bool stop() const { return both_[1] != 0; }

 private:
  std::unique_ptr<std::int64_t[]> both_;  // stays where it is while the step's record moves
  request under_way_;
};

}  // namespace weft::detail
