// A lane's operations whose data lie on a device: who moves them, and who waits for them there. Invariant: nobody waits
// on the device for an operation that the host hasn't seen complete, so ranks that never call it are told of as always.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "weft/comm/call.hpp"

namespace weft::detail {

class device_side {
 public:
  /// Member m calls the operation in `place`; the first of all calls makes the mover, under `making`.
  WEFT_LINKED void called(std::mutex& making, std::size_t place, int m, int members, const comm_call& call) {
    device_mover* mover = mover_.load(std::memory_order_acquire);
    if (!mover) {
      const std::lock_guard lock(making);
      if (!held_) held_ = call.movers ? call.movers->mover(call, members) : call.queue.mover(members);
      mover_.store(mover = held_.get(), std::memory_order_release);
    }
    mover->called(place, m, call);
  }
  /// All members have called it; failed() is called where the device fails, whose error is thrown.
  template <class Failed>
  void move(std::size_t place, const Failed& failed) {
    try {
      held_->move(place);
    } catch (...) {
      failed();
      throw;
    }
  }

  // Of an operation that is complete as far as the host knows, on the device or not.
  void precede(std::size_t place, const queue_ref& queue) {
    device_mover* const mover = mover_.load(std::memory_order_acquire);
    if (mover && queue.moves_data())
      mover->precede(place, queue);
    else if (mover)
      mover->finish(place);
  }
  bool done(std::size_t place) {
    device_mover* const mover = mover_.load(std::memory_order_acquire);
    return !mover || mover->done(place);
  }
  void finish(std::size_t place) {
    if (device_mover* const mover = mover_.load(std::memory_order_acquire)) mover->finish(place);
  }
  /// The same; where the device fails, it touches nothing any more.
  void end(std::size_t place) noexcept {
    try {
      finish(place);
    } catch (...) {
    }
  }

 private:
  std::unique_ptr<device_mover> held_;
  std::atomic<device_mover*> mover_{nullptr};
};

}  // namespace weft::detail
