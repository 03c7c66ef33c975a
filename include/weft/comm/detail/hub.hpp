// What all groups of one launch share: the end of all ranks when one fails, and the detection of deadlocks.
// Invariant: after `quiesce` returns, no thread reads or writes a buffer of a collective, and none will again.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "weft/comm/detail/disagreement.hpp"
#include "weft/comm/request.hpp"
#include "weft/core/sleep.hpp"

namespace weft::detail {

/// Something that lives until the launch ends.
class kept {
 public:
  virtual ~kept() = default;
  virtual void wake() {}  // all ranks end
};

/// Something that ranks wait on.
class waitable : public kept {
 public:
  virtual bool can_move(std::uint64_t ticket) const = 0;                              // from any thread
  virtual std::string describe_wait(int world_rank, std::uint64_t ticket) const = 0;  // only when nobody moves
};

class hub {
 public:
  [[gnu::cold]] explicit hub(int ranks)
      : ranks_(static_cast<std::size_t>(ranks)),
        crowded_(static_cast<unsigned>(ranks) > std::thread::hardware_concurrency()),
        status_(std::uint64_t(ranks) << live_shift) {}

  int ranks() const { return static_cast<int>(ranks_.size()); }
  /// More ranks than hardware threads.
  bool crowded() const { return crowded_; }
  std::mutex& mutex() { return mutex_; }

  /// Keeps `thing` until the launch ends. Call under mutex().
  template <class T>
  T& keep(std::unique_ptr<T> thing) {
    T& reference = *thing;
    kept_.push_back(std::move(thing));
    return reference;
  }

  bool ended() const { return ended_.load(std::memory_order_seq_cst); }

  /// Ends all ranks: their collectives throw from now on. The first call wins. `rank` is the culprit, or -1 for all.
  [[gnu::cold]] WEFT_LINKED void end(int rank, std::string why, std::exception_ptr cause) noexcept {
    const std::lock_guard lock(mutex_);
    if (!ended()) {
      culprit_ = rank;
      why_ = std::move(why);
      cause_ = std::move(cause);
      ended_.store(true, std::memory_order_seq_cst);
      for (auto& thing : kept_) thing->wake();
    }
  }

  /// Ends all ranks with a mistake of the program that this rank found, and throws it.
  [[noreturn, gnu::cold, gnu::noinline]] void end_with(const std::string& message) {
    end(-1, message, std::make_exception_ptr(failure(message)));
    leave();
  }

  /// Throws what a rank is told after the end, once no buffer of its is in use any more.
  [[noreturn, gnu::cold, gnu::noinline]] void leave() {
    quiesce();
    const std::lock_guard lock(mutex_);
    throw aborted(text("This collective can't finish: ", why_));
  }

  /// A thread moves data only between enter_work() == true and leave_work().
  WEFT_LINKED bool enter_work(int rank) {
    at(rank).working.store(true, std::memory_order_seq_cst);
    if (!ended()) return true;
    leave_work(rank);
    return false;
  }
  void leave_work(int rank) { at(rank).working.store(false, std::memory_order_release); }
  WEFT_LINKED void quiesce() noexcept {
    for (auto& rank : ranks_) {
      while (rank.working.load(std::memory_order_seq_cst)) std::this_thread::yield();
    }
  }

  /// A rank is about to sleep for `ticket` of `on`. When that leaves no rank awake and none can move, all are ended.
  WEFT_LINKED void enter_sleep(int rank, const waitable& on, std::uint64_t ticket) {
    at(rank).on = &on;
    at(rank).ticket.store(ticket, std::memory_order_relaxed);
    look_for_deadlock(status_.fetch_add(1, std::memory_order_seq_cst) + 1);
  }
  void leave_sleep() { status_.fetch_add(one_wake - 1, std::memory_order_seq_cst); }

  /// Rank `rank` returned from its function, or threw `failure`.
  WEFT_LINKED void finish(int rank, std::exception_ptr failure) noexcept {
    if (failure) end_by(rank, failure);
    at(rank).finished.store(true, std::memory_order_release);
    look_for_deadlock(status_.fetch_sub(one_rank, std::memory_order_seq_cst) - one_rank);
  }

  /// Whether the rank calls nothing any more; all that it did is seen then.
  bool has_returned(int rank) { return at(rank).finished.load(std::memory_order_acquire); }

  /// After all ranks finished: rethrows the error that ended them, if one did.
  WEFT_LINKED void rethrow() {
    if (!ended()) return;
    if (cause_) std::rethrow_exception(cause_);
    throw failure(why_);
  }

 private:
  static constexpr int live_shift = 16;  // status: wakes so far << 32 | live ranks << 16 | sleeping ranks
  static constexpr std::uint64_t one_rank = std::uint64_t{1} << live_shift;
  static constexpr std::uint64_t one_wake = std::uint64_t{1} << 32;

  struct alignas(64) rank_state {
    std::atomic<bool> working{false};
    std::atomic<bool> finished{false};
    std::atomic<const waitable*> on{nullptr};
    std::atomic<std::uint64_t> ticket{0};
  };
  rank_state& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  /// Rank `rank` threw `failure`.
  [[gnu::cold]] WEFT_LINKED void end_by(int rank, const std::exception_ptr& failure) noexcept {
    try {
      std::rethrow_exception(failure);
    } catch (const aborted&) {
      end(rank, text("rank ", rank, " was aborted."), failure);  // only if nobody ended before
    } catch (const std::exception& e) {
      blame(rank, text("rank ", rank, " failed: ", e.what()), failure);
    } catch (...) {
      blame(rank, text("rank ", rank, " threw something that is no std::exception."), failure);
    }
  }

  /// Ends all ranks with this rank's own error; also when the rank ended them before, while it unwound.
  [[gnu::cold]] WEFT_LINKED void blame(int rank, std::string why, std::exception_ptr failure) noexcept {
    end(rank, std::move(why), failure);
    const std::lock_guard lock(mutex_);
    if (culprit_ == rank && !cause_) cause_ = std::move(failure);
  }

  /// `status` was seen. If all live ranks sleep, none has woken since, and none can move: that is a deadlock.
  WEFT_LINKED void look_for_deadlock(std::uint64_t status) noexcept {
    const std::uint64_t live = (status >> live_shift) & 0xffffu;
    if (live == 0 || live != (status & 0xffffu) || ended()) return;
    for (auto& rank : ranks_) {
      if (rank.finished.load(std::memory_order_relaxed)) continue;
      if (rank.on.load(std::memory_order_relaxed)->can_move(rank.ticket.load(std::memory_order_relaxed))) return;
    }
    if (status_.load(std::memory_order_seq_cst) == status) end_deadlock();
  }
  [[gnu::cold]] WEFT_LINKED void end_deadlock() noexcept {
    std::string message = "No rank can go on:";
    for (int rank = 0; rank < ranks(); ++rank) {
      message += text(rank == 0 ? " rank " : "; rank ", rank);
      message += at(rank).finished ? std::string(" has returned")
                                   : text(" waits for ", at(rank).on.load()->describe_wait(rank, at(rank).ticket));
    }
    message += text(". ", all_alike);
    auto cause = std::make_exception_ptr(failure(message));
    end(-1, std::move(message), std::move(cause));
  }

  std::vector<rank_state> ranks_;
  bool crowded_;
  std::atomic<std::uint64_t> status_;
  std::atomic<bool> ended_{false};
  std::mutex mutex_;  // guards what follows
  int culprit_ = -1;
  std::string why_;
  std::exception_ptr cause_;
  std::vector<std::unique_ptr<kept>> kept_;
};

}  // namespace weft::detail
