// The operations of a process that are under way over MPI, and what another rank's failure does to them.
// Invariant: whoever waits for one operation moves all of them on, those of other groups too, since another rank may
// wait for them. MPI is called under a lock, which nobody holds while he sleeps, so that another thread can see to the
// operations of a rank that waits elsewhere, as for a device.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "weft/comm/detail/mpi_news.hpp"
#include "weft/comm/detail/mpi_operation.hpp"
#include "weft/comm/detail/pause.hpp"
#include "weft/comm/request.hpp"

namespace weft::detail {

/// MPI takes a receive back, but no send and no collective: one that can't complete, since a rank failed, stays with
/// MPI, and may touch its buffers. So those that an error leaves get 0.6 s in which ranks that didn't fail complete
/// what they can, with their buffers there; where one with buffers is left then, nothing more is asked of MPI: it is
/// lost.
class mpi_operations final : public completion_without_queue {
  using clock = std::chrono::steady_clock;

 public:
  mpi_news news;
  std::mutex calls;  // of MPI, while a launch's function runs
  /// Called by the rank's thread before it waits: another rank may wait for what this one keeps back.
  std::function<void()> before_wait;

  /// `begin(operation)` posts what is posted at once.
  template <class Begin>
  request post(const Begin& begin) {
    const std::lock_guard lock(calls);
    require_going_on();
    if (free_.empty()) {
      free_.push_back(operations_.size());
      operations_.push_back(std::make_unique<mpi_operation>());
    }
    const std::uint64_t ticket = free_.back();
    begin(*operations_[ticket]);
    free_.pop_back();
    under_way_.push_back(ticket);
    move_on();
    return {*this, ticket};
  }
  void wait(std::uint64_t ticket) override {
    if (before_wait) before_wait();
    turn others;
    std::unique_lock lock(calls);
    for (int tries = 0; !is_complete(ticket); ++tries) {
      move_on();
      if (tries > 5) {
        lock.unlock();
        others.give();
        lock.lock();
      }
      if (!is_complete(ticket)) leave_if_ended(ticket);
    }
    finish(ticket);
  }
  bool test(std::uint64_t ticket) override {
    const std::lock_guard lock(calls);
    if (!is_complete(ticket)) move_on();
    if (is_complete(ticket)) return finish(ticket), true;
    leave_if_ended(ticket);
    return false;
  }
  void abandon(std::uint64_t ticket) noexcept override {
    const std::lock_guard lock(calls);
    begin_grace();
    try {
      while (!is_complete(ticket) && !lost_ && clock::now() < grace_ends_) move_on(), std::this_thread::yield();
    } catch (...) {  // the error that unwinds is the one that is told
    }
    if (is_complete(ticket))
      free_.push_back(ticket);
    else
      lose(ticket);
  }

  /// Moves all of them on, under the lock or at the end of a launch.
  void move_on() {
    if (lost_) return;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < under_way_.size(); ++i)
      if (!operations_[under_way_[i]]->advance()) under_way_[kept++] = under_way_[i];
    under_way_.resize(kept);
    if (++moves_ % 32 == 0) news.read();
  }
  /// The same from another thread than the rank's, where that isn't in MPI: says which rank failed, if one is known to.
  std::string look() {
    const std::unique_lock lock(calls, std::try_to_lock);
    if (!lock || lost_) return {};
    move_on();
    news.read();
    return news.failed();
  }
  bool lost() const { return lost_; }
  /// Of a new launch, or after one that failed.
  void clear() {
    under_way_.clear();
    grace_ends_ = {};
  }

 private:
  bool is_complete(std::uint64_t ticket) const {
    return std::find(under_way_.begin(), under_way_.end(), ticket) == under_way_.end();
  }
  void finish(std::uint64_t ticket) {
    free_.push_back(ticket);
    operations_[ticket]->check();
  }
  void lose(std::uint64_t ticket) noexcept {
    lost_ = !operations_[ticket]->withdraw() || lost_;
    under_way_.erase(std::find(under_way_.begin(), under_way_.end(), ticket));
  }

  void require_going_on() const {
    if (!news.failed().empty()) throw aborted("This collective can't finish: " + news.failed());
  }
  void leave_if_ended(std::uint64_t ticket) {
    if (news.failed().empty() && !lost_) return;
    // What is under way among those that didn't fail finishes while its buffers are there.
    begin_grace();
    while (operations_[ticket]->has_buffers() && !lost_ && clock::now() < grace_ends_) {
      move_on();
      if (is_complete(ticket)) return;
      std::this_thread::yield();
    }
    lose(ticket);
    throw aborted("This collective can't finish: " + (news.failed().empty() ? "this rank failed" : news.failed()));
  }
  void begin_grace() {
    if (grace_ends_ == clock::time_point()) grace_ends_ = clock::now() + std::chrono::milliseconds(600);
  }
  bool lost_ = false;                                       // one is left that may touch memory which is gone
  clock::time_point grace_ends_{};                          // for all that an error leaves
  std::vector<std::unique_ptr<mpi_operation>> operations_;  // by ticket
  std::vector<std::uint64_t> free_, under_way_;
  unsigned moves_ = 0;
};

}  // namespace weft::detail
