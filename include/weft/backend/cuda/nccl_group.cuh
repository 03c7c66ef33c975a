// NCCL's communicators and a launch's groups of ranks: one communicator and one stream for each rank of a group, made
// by the rank's own thread on its own GPU. Invariant: communicators are made, asked, used and ended under one lock, and
// nobody waits for a GPU under it, so that where NCCL fails all are aborted, and no GPU waits for NCCL any more.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/backend/cuda/nccl_memory.cuh>
#include <weft/backend/cuda/stream.cuh>
#include <weft/comm/request.hpp>

namespace weft::gpu {

/// One rank of a group.
struct nccl_seat {
  int gpu = 0;
  ncclComm_t comm = nullptr;           // null in a group of one, and after an abort
  ncclComm_t begun = nullptr;          // while it is made: NCCL writes here, also where it fails or is aborted
  bool busy = false;                   // comm goes on with what it was asked for, and who asked looks after it
  nccl_registrations registered;       // with comm
  nccl_scratch scratch;                // for what is folded, and for a barrier
  std::unique_ptr<gpu::stream> queue;  // of what this group's operations do on the rank's GPU
};

struct nccl_group {
  explicit nccl_group(int size) : seats(static_cast<std::size_t>(size)) {}
  nccl_seat& at(int rank) { return seats[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(seats.size()); }

  std::vector<nccl_seat> seats;
};

/// All groups of one launch. A thread of its own asks NCCL for errors that come by themselves, as where a GPU is lost:
/// who waits for a GPU would never hear of them.
class nccl_job final : private nccl_registrant {
 public:
  nccl_job() : nccl_job([] { return std::string(); }, 50) {}
  /// The thread calls also() every so many milliseconds, under the lock: what it says or throws fails the launch. A
  /// sentence is of another rank, which failed first.
  nccl_job(std::function<std::string()> also, int every)
      : also_(std::move(also)), every_(every), watch_([this] { watch(); }) {
    nccl_memory::of_process().add(*this);
  }
  nccl_job(const nccl_job&) = delete;
  nccl_job& operator=(const nccl_job&) = delete;
  /// All ranks have returned.
  ~nccl_job() override {
    if (!failed() && !rank_failed()) settle();  // while the watch can still abort what would never end
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    stop_.notify_all();
    watch_.join();
    nccl_memory::of_process().remove(*this, [&] {
      const std::lock_guard lock(mutex_);
      if (failed() || rank_failed()) return abort_all();
      try {
        each([](nccl_seat& seat) { seat.registered.remove_all(seat.comm); });
      } catch (...) {
        abort_all();
      }
    });
    const std::lock_guard lock(mutex_);
    try {
      if (!failed() && !rank_failed()) finish_all();
    } catch (...) {  // what ranks have waited for is done; nobody needs the rest
    }
    abort_all();  // those that are left
  }

  /// A rank leaves by an exception: nobody waits for its communicators any more. What was given ends by itself.
  void rank_fails() noexcept { rank_failed_.store(true, std::memory_order_release); }
  bool is_sound() const { return !failed(); }
  bool rank_failed() const { return rank_failed_.load(std::memory_order_acquire); }
  /// Throws where NCCL has failed: what it says.
  void require_sound() {
    if (!failed()) [[likely]]
      return;
    const std::lock_guard lock(mutex_);
    rethrow();
  }
  /// This rank gives up what may be under way: all of it is aborted.
  void give_up() noexcept {
    const std::lock_guard lock(mutex_);
    fail_locked("this rank failed");
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
      or_fail([&] { made = step(seat, asked, call, parent, begin); });
      if (made) return true;
    }
  }
  /// One look of it, under the lock; `asked`: whether NCCL has been. True: it is there.
  template <class Begin>
  static bool step(nccl_seat& seat, bool& asked, const char* call, nccl_seat* parent, const Begin& begin) {
    if (parent) parent->busy = true;
    if (!std::exchange(asked, true)) check(begin(&seat.begun), call, parent ? parent->comm : nullptr);
    if ((parent && !is_ready(parent->comm, call)) || (seat.begun && !is_ready(seat.begun, call))) return false;
    if (parent) parent->busy = false;
    seat.comm = std::exchange(seat.begun, nullptr);
    return true;
  }

  /// f() under the lock, where all is sound; what it throws fails the launch. f waits for no GPU.
  template <class F>
  void issue(const F& f) {
    require_sound();
    const std::lock_guard lock(mutex_);
    if (failed()) rethrow();
    or_fail(f);
  }
  /// Throws what NCCL reports by itself of any communicator. Under the lock.
  void look() {
    each([](nccl_seat& seat) {
      if (seat.comm && !seat.busy) is_ready(seat.comm, "an operation of NCCL");
    });
  }

 private:
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  [[noreturn]] void rethrow() const {
    if (of_other_) throw aborted(why_);
    throw failure(why_);
  }
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
        seat.registered.forget();
        if (ncclComm_t const comm = std::exchange(seat.comm, nullptr)) ncclCommAbort(comm);
        if (ncclComm_t const begun = std::exchange(seat.begun, nullptr)) ncclCommAbort(begun);
      }
  }
  /// A rank frees memory, which nothing that it was given still has.
  void let_go(const std::byte* chunk) noexcept override {
    const std::lock_guard lock(mutex_);
    try {
      each([&](nccl_seat& seat) {
        if (!seat.registered.has(chunk)) return;
        require(!seat.busy, "memory is freed that NCCL is still asked to move");
        seat.registered.remove(seat.comm, chunk);
      });
    } catch (const std::exception& e) {
      fail_locked(e.what());
    }
  }
  /// All that was given has ended, or NCCL failed; and no graph has any of it, which communicators would wait for.
  void settle() noexcept {
    try {
      each([](nccl_seat& seat) {
        if (seat.queue) seat.queue->synchronize(), seat.queue->leave();
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
    while (!stop_.wait_for(lock, std::chrono::milliseconds(every_), [&] { return over_; })) {
      if (failed()) continue;
      try {
        look();
        if (const std::string words = also_(); !words.empty()) of_other_ = true, fail_locked(words);
      } catch (const std::exception& e) {
        fail_locked(e.what());
      }
    }
  }

  const std::function<std::string()> also_;
  const int every_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<nccl_group>> groups_;
  std::string why_;
  bool of_other_ = false;  // why: another rank failed
  std::atomic<bool> failed_{false}, rank_failed_{false};
  bool over_ = false;
  std::condition_variable stop_;
  std::thread watch_;  // begins last
};

}  // namespace weft::gpu
