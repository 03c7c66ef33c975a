// NCCL's communicators and a launch's groups of ranks: one communicator and one stream for each rank of a group, made
// by the rank's own thread on its own GPU. Invariant: communicators are used, and ended, under one lock, so operations
// of all groups begin in one order on every GPU; where NCCL fails all are aborted, and no GPU waits for NCCL any more.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <weft/backend/cuda/nccl_calls.cuh>
#include <weft/backend/cuda/stream.cuh>

namespace weft::cuda {

/// One rank of a group.
struct nccl_seat {
  int gpu = 0;
  ncclComm_t comm = nullptr;            // null in a group of one, and after an abort
  std::unique_ptr<cuda::stream> queue;  // of what this group's operations do on the rank's GPU
};

struct nccl_group {
  explicit nccl_group(int size) : seats(static_cast<std::size_t>(size)) {}
  nccl_seat& at(int rank) { return seats[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(seats.size()); }

  std::vector<nccl_seat> seats;
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
  /// begin(comm) asks NCCL for a rank's communicator, on its thread; returns once it is there. False: a rank failed.
  /// `parent`, null or what it is split from, is busy meanwhile.
  template <class Begin>
  bool make(nccl_group& in, int rank, const char* call, ncclComm_t parent, const Begin& begin) {
    nccl_seat& seat = in.at(rank);
    ncclComm_t made = nullptr;
    const auto ready = [&](ncclComm_t of) {
      return of == nullptr || wait_until_ready(of, call, [&] { return failed() || rank_failed(); });
    };
    try {
      check(begin(&made), call, parent);
      const bool done = ready(parent) && ready(made);
      const std::lock_guard lock(mutex_);
      if (done && !failed()) return seat.comm = made, true;
    } catch (...) {
      if (made) ncclCommAbort(made);
      throw;
    }
    if (made) ncclCommAbort(made);
    return false;
  }

  /// f() under the lock, where all is sound; what it throws fails the launch.
  template <class F>
  void issue(const F& f) {
    require_sound();
    const std::lock_guard lock(mutex_);
    if (failed()) throw failure(why_);
    try {
      f();
    } catch (const std::exception& e) {
      fail_locked(e.what());
      throw;
    }
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
  void abort_all() noexcept {
    each([](nccl_seat& seat) {
      if (ncclComm_t const comm = std::exchange(seat.comm, nullptr)) ncclCommAbort(comm);
    });
  }
  void finish_all() {
    each([](nccl_seat& seat) {
      if (seat.queue) seat.queue->synchronize();
    });
    each([](nccl_seat& seat) {
      if (seat.comm) check(ncclCommFinalize(seat.comm), "ncclCommFinalize", seat.comm);
    });
    each([](nccl_seat& seat) {
      if (!seat.comm) return;
      wait_until_ready(seat.comm, "ncclCommFinalize", [] { return false; });
      check(ncclCommDestroy(std::exchange(seat.comm, nullptr)), "ncclCommDestroy");
    });
  }
  template <class F>
  void each(const F& f) {
    for (auto group = groups_.rbegin(); group != groups_.rend(); ++group)
      for (nccl_seat& seat : (*group)->seats) f(seat);
  }
  void watch() {
    std::unique_lock lock(mutex_);
    while (!stop_.wait_for(lock, std::chrono::milliseconds(50), [&] { return over_; })) {
      try {
        each([](nccl_seat& seat) {
          ncclResult_t state = ncclSuccess;
          if (seat.comm) check(ncclCommGetAsyncError(seat.comm, &state), "ncclCommGetAsyncError", seat.comm);
          check(state, "an operation of NCCL", seat.comm);
        });
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

}  // namespace weft::cuda
