// What ranks tell each other when a step ends. Invariant: a message is posted when its step ends and waited for when
// that step is judged, so that no rank waits for another inside a step.
#pragma once

#include <atomic>
#include <cstdint>

#include <weft/tensor/context.hpp>

namespace weft::detail {

/// The numbers of one message.
struct step_message {
  std::int64_t peak_bytes;  // of the rank that held most
  std::int64_t stop;        // 1: some rank was asked to stop
};

/// One step's message, on its way.
class step_end {
 public:
  /// All ranks call it where the step ends. `at` and `to_all`, the ranks' host side, outlive the message. A rank alone
  /// knows at once.
  WEFT_LINKED void post(step_message& at, any_communicator& to_all, context& ctx, const std::atomic<bool>* stop) {
    said_ = &at;
    at = {static_cast<std::int64_t>(ctx.memory.ledger().peak_total), stop && *stop};
    if (ctx.size() == 1) return;
    under_way_ = to_all.all_reduce(&at, &at, 2, dtype::i64, reduction::max, {"peak memory"});
    under_way_.test();  // so that a queue which has to bring it knows where it ends
  }
  /// What all ranks said.
  const step_message& wait() {
    under_way_.wait();
    return *said_;
  }
  /// The same of a message that was waited for, or of a rank alone.
  const step_message& said() const { return *said_; }

 private:
  const step_message* said_ = nullptr;
  request under_way_;
};

}  // namespace weft::detail
