// NCCL's communicators and a launch's groups of ranks: one communicator and one stream for each rank of a group, made
// by the rank's own thread on its own GPU. Invariant: communicators are made, asked, used and ended under one lock, and
// nobody waits for a GPU under it, so that where NCCL fails all are aborted, and no GPU waits for NCCL any more.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/backend/cuda/nccl_calls.cuh>
#include <weft/backend/cuda/stream.cuh>

namespace weft::gpu {

/// One rank of a group.
struct nccl_seat {
  int gpu = 0;
  ncclComm_t comm = nullptr;           // null in a group of one, and after an abort
  ncclComm_t begun = nullptr;          // while it is made: NCCL writes here, also where it fails or is aborted
  bool splits = false;                 // comm is busy with a split, and only its rank's thread asks it for more
  std::unique_ptr<gpu::stream> queue;  // of what this group's operations do on the rank's GPU
};

struct nccl_group {
  explicit nccl_group(int size) : seats(static_cast<std::size_t>(size)) {}
  nccl_seat& at(int rank) { return seats[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(seats.size()); }

  std::vector<nccl_seat> seats;
};

/// The last operation of NCCL on each GPU, of all launches of this process. NCCL wants operations of several
/// communicators on one GPU to run one after the other, in the same order on all GPUs: two that wait for each other's
/// place there would never end. (From 2.26 on it sees to that itself where NCCL_LAUNCH_ORDER_IMPLICIT is 1.)
struct nccl_order {
  static nccl_order& of_process() {
    static nccl_order& one = *new nccl_order;  // CUDA may end before what is static
    return one;
  }
  /// Under the lock.
  event& last(int gpu) {
    std::unique_ptr<event>& e = events[gpu];
    if (!e) {
      const scoped_device here(gpu);
      e = std::make_unique<event>();
    }
    return *e;
  }
  std::mutex lock;  // taken before a launch's own, whose watch is free meanwhile
  std::map<int, std::unique_ptr<event>> events;
};

/// All groups of one launch. A thread of its own asks NCCL for errors that come by themselves, as where a GPU is lost:
/// who waits for a GPU would never hear of them.
class nccl_job {
 public:
  nccl_job() : watch_([this] { watch(); }) {}
  nccl_job(const nccl_job&) = delete;
  nccl_job& operator=(const nccl_job&) = delete;
  /// All ranks have returned.
  ~nccl_job() {
    if (!failed() && !rank_failed()) settle();  // while the watch can still abort what would never end
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    stop_.notify_all();
    watch_.join();
    const std::lock_guard lock(mutex_);
    try {
      if (!failed() && !rank_failed()) finish_all();
    } catch (...) {  // what ranks have waited for is done; nobody needs the rest
    }
    abort_all();  // those that are left
  }

  /// A rank leaves by an exception: nobody waits for its communicators any more. What was given ends by itself.
  void rank_fails() noexcept { rank_failed_.store(true, std::memory_order_release); }
  bool rank_failed() const { return rank_failed_.load(std::memory_order_acquire); }
  /// Throws where NCCL has failed: what it says.
  void require_sound() {
    if (!failed()) [[likely]]
      return;
    const std::lock_guard lock(mutex_);
    throw failure(why_);
  }

  /// The group lives until the launch ends.
  nccl_group* add(int size) {
    auto made = std::make_unique<nccl_group>(size);
    const std::lock_guard lock(mutex_);
    groups_.push_back(std::move(made));
    return groups_.back().get();
  }
  /// begin(where) asks NCCL for a rank's communicator, on its thread; returns once it is there. False: a rank or NCCL
  /// failed, and what was begun is aborted with the rest. `parent`: null, or the seat whose communicator is split.
  template <class Begin>
  bool make(nccl_group& in, int rank, const char* call, nccl_seat* parent, const Begin& begin) {
    nccl_seat& seat = in.at(rank);
    bool asked = false;
    for (weft::detail::pause between;; between.after(false)) {
      const std::lock_guard lock(mutex_);
      if (failed() || rank_failed()) return false;
      bool made = false;
      or_fail([&] {
        if (parent) parent->splits = true;
        if (!std::exchange(asked, true)) check(begin(&seat.begun), call, parent ? parent->comm : nullptr);
        made = (!parent || is_ready(parent->comm, call)) && (!seat.begun || is_ready(seat.begun, call));
      });
      if (!made) continue;
      if (parent) parent->splits = false;
      seat.comm = std::exchange(seat.begun, nullptr);
      return true;
    }
  }

  /// f(order) under the lock, where all is sound; what it throws fails the launch. f waits for no GPU.
  template <class F>
  void issue(const F& f) {
    require_sound();
    nccl_order& order = nccl_order::of_process();
    const std::lock_guard alone(order.lock);
    const std::lock_guard lock(mutex_);
    if (failed()) throw failure(why_);
    or_fail([&] { f(order); });
  }
  /// Throws what NCCL reports by itself of any communicator. Under the lock.
  void look() {
    each([](nccl_seat& seat) {
      if (seat.comm && !seat.splits) is_ready(seat.comm, "an operation of NCCL");
    });
  }

 private:
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Aborts all that is under way, so that GPUs go on. The first reason is kept.
  void fail_locked(const std::string& why) noexcept {
    if (failed()) return;
    why_ = why;
    failed_.store(true, std::memory_order_release);
    abort_all();
  }
  template <class F>
  void or_fail(const F& f) {
    try {
      f();
    } catch (const std::exception& e) {
      fail_locked(e.what());
      throw;
    }
  }
  /// Parents first, as NCCL's guide has it: a split that goes on behind its callers ends with its parent.
  void abort_all() noexcept {
    for (const auto& group : groups_)
      for (nccl_seat& seat : group->seats) {
        if (ncclComm_t const comm = std::exchange(seat.comm, nullptr)) ncclCommAbort(comm);
        if (ncclComm_t const begun = std::exchange(seat.begun, nullptr)) ncclCommAbort(begun);
      }
  }
  /// All that was given has ended, or NCCL failed.
  void settle() noexcept {
    try {
      each([](nccl_seat& seat) {
        if (seat.queue) seat.queue->synchronize();
      });
    } catch (...) {  // what ranks have waited for is done; nobody needs the rest
    }
  }
  void finish_all() {
    each([](nccl_seat& seat) {
      if (seat.comm) check(ncclCommFinalize(seat.comm), "ncclCommFinalize", seat.comm);
    });
    each([](nccl_seat& seat) {
      if (!seat.comm) return;
      wait_until_ready(seat.comm, "ncclCommFinalize", [] {});
      check(ncclCommDestroy(std::exchange(seat.comm, nullptr)), "ncclCommDestroy");
    });
  }
  /// The newest group first.
  template <class F>
  void each(const F& f) {
    for (auto group = groups_.rbegin(); group != groups_.rend(); ++group)
      for (nccl_seat& seat : (*group)->seats) f(seat);
  }
  void watch() {
    std::unique_lock lock(mutex_);
    while (!stop_.wait_for(lock, std::chrono::milliseconds(50), [&] { return over_; })) {
      try {
        look();
      } catch (const std::exception& e) {
        fail_locked(e.what());
      }
    }
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<nccl_group>> groups_;
  std::string why_;
  std::atomic<bool> failed_{false}, rank_failed_{false};
  bool over_ = false;
  std::condition_variable stop_;
  std::thread watch_;  // begins last
};

}  // namespace weft::gpu
