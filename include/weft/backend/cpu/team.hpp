// The cores that one rank owns, and per-thread scratch memory.
// Invariant: parallel_for returns only after every task has run (or one has thrown); a team of one creates no thread.
// Between loops all its threads have as much scratch memory as the one whose tasks took the most, whoever ran them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/backend/cpu/scratch.hpp>
#include <weft/backend/cpu/scratch_need.hpp>
#include <weft/core/error.hpp>
#include <weft/core/sleep.hpp>
#include <weft/core/thread.hpp>

namespace weft::cpu {

namespace detail {

/// Threads of all living teams, callers included: spinning pays only while each has a core of its own.
inline std::atomic<int>& team_threads() {
  static std::atomic<int> count{0};
  return count;
}
inline bool cores_are_free() {
  static const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return team_threads().load(std::memory_order_relaxed) <= cores;
}

/// Waits until `word` is no longer `old`: a short spin if cores are free, then sleep.
template <class Word>
void wait_while(std::atomic<Word>& word, Word old) {
  weft::detail::spin_wait spin(cores_are_free() ? 2000 : 0, 0);
  do {
    if (word.load(std::memory_order_acquire) != old) return;
  } while (spin.again());
  weft::detail::sleep_while(word, old, std::memory_order_acquire);
}

}  // namespace detail

/// A caller and `threads - 1` persistent workers that share loops. One thread uses a team at a time; different teams
/// are independent. A parallel_for inside a task of the same team runs as a plain loop.
class team {
 public:
  /// rank: whose cores they are, for the names of their threads; -1: nobody's.
  explicit team(int threads = 1, int rank = -1)
      : size_(threads), scratch_(static_cast<std::size_t>(threads > 1 && threads <= 4096 ? threads : 0)) {
    require(threads >= 1 && threads <= 4096, "A team needs 1 to 4096 threads, not ", threads, ".");
    detail::team_threads() += size_;
    try {
      workers_.reserve(static_cast<std::size_t>(size_));
      for (int i = 1; i < size_; ++i)
        workers_.push_back(std::thread([this, i, rank] {
          if (rank >= 0) weft::detail::name_this_thread(rank, i);
          work(scratch_[static_cast<std::size_t>(i)]);
        }));
    } catch (...) {  // the system has no more threads: end those that began
      end();
      throw;
    }
  }
  team(const team&) = delete;
  team& operator=(const team&) = delete;
  ~team() { end(); }

  int size() const { return size_; }

  /// As a queue (core/queue.hpp) it runs what it is given at once.
  static constexpr bool runs_behind = false;
  template <class F>
  void enqueue(F&& f) {
    f();
  }
  void synchronize() {}

  /// What kernels that were given to it took of scratch at once, at most: outside of loops, and in them. It depends on
  /// the kernels alone, not on which thread ran which task. Not from within a loop.
  scratch_need scratch_taken() const {
    scratch_need most{outside_.wanted(), 0};
    for (const detail::scratch_stack& s : scratch_) most.worker = std::max(most.worker, s.wanted());
    return most;
  }
  /// Bytes that its threads keep for that. They only grow.
  std::size_t scratch_bytes() const { return scratch_taken().kept(size_); }
  /// Where a kernel that is given to it takes its scratch, outside of loops: the team's own, whichever thread calls.
  detail::scratch_stack& stack() { return running_ ? *detail::this_thread_scratch() : outside_; }

  /// Calls f(task) for task = 0 ... tasks-1, in any order, on the caller and the workers. The first exception that a
  /// task throws is rethrown here; tasks not yet begun are then dropped.
  template <class F>
  void parallel_for(std::int64_t tasks, F&& f) {
    share(this, tasks, f);
  }
  /// The same on a team or, given null, on the caller alone.
  template <class F>
  static void share(team* cores, std::int64_t tasks, F&& f) {
    using function = std::remove_reference_t<F>;
    run(
        cores, tasks, [](void* context, std::int64_t task) { (*static_cast<function*>(context))(task); },
        const_cast<void*>(static_cast<const void*>(std::addressof(f))));
  }

 private:
  static constexpr int closed = 1 << 30;

  // Compiled once, whatever the loop's body; a body is compiled in one place, also where there is nothing to share.
  [[gnu::noinline]] static void run(team* cores, std::int64_t tasks, void (*call)(void*, std::int64_t), void* context) {
    if (cores && cores->size_ > 1 && tasks > 1 && !cores->running_) return cores->share_out(tasks, call, context);
    for (std::int64_t task = 0; task < tasks; ++task) call(context, task);
  }
  WEFT_LINKED void share_out(std::int64_t tasks, void (*call)(void*, std::int64_t), void* context) {
    call_ = call;
    context_ = context;
    tasks_ = tasks;
    next_.store(0, std::memory_order_relaxed);
    running_ = true;
    inside_.fetch_and(~closed, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    weft::detail::wake_sleepers(generation_);
    {
      const detail::using_stack mine(scratch_.front());
      run_tasks();
    }
    int seen = inside_.fetch_or(closed, std::memory_order_acq_rel) | closed;
    while (seen != closed) {
      detail::wait_while(inside_, seen);
      seen = inside_.load(std::memory_order_acquire);
    }
    running_ = false;
    share_needs();
    if (failed_.load(std::memory_order_relaxed)) {
      failed_.store(false, std::memory_order_relaxed);
      std::rethrow_exception(std::exchange(thrown_, nullptr));
    }
  }

  // No worker is in a loop: what one thread's tasks took, another's may take next time.
  WEFT_LINKED void share_needs() {
    std::size_t most = 0;
    for (const detail::scratch_stack& s : scratch_) most = std::max(most, s.wanted());
    for (detail::scratch_stack& s : scratch_) s.reserve(most);
  }

  void end() {
    stop_.store(true, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    weft::detail::wake_sleepers(generation_);
    for (std::thread& worker : workers_) worker.join();
    detail::team_threads() -= size_;
  }

  WEFT_LINKED void run_tasks() {
    for (;;) {
      const std::int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks_) return;
      try {
        call_(context_, task);
      } catch (...) {
        if (!failed_.exchange(true, std::memory_order_relaxed)) thrown_ = std::current_exception();
        next_.store(tasks_, std::memory_order_relaxed);
      }
    }
  }

  WEFT_LINKED void work(detail::scratch_stack& mine) {
    const detail::using_stack given(mine);
    std::uint32_t seen = 0;
    for (;;) {
      detail::wait_while(generation_, seen);
      seen = generation_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      // A worker that wakes after the loop is over finds it closed and stays out of it.
      if (!(inside_.fetch_add(1, std::memory_order_acq_rel) & closed)) run_tasks();
      if (inside_.fetch_sub(1, std::memory_order_acq_rel) == closed + 1) weft::detail::wake_sleepers(inside_);
    }
  }

  int size_ = 1;
  bool running_ = false;
  void (*call_)(void*, std::int64_t) = nullptr;
  void* context_ = nullptr;
  std::int64_t tasks_ = 0;
  std::exception_ptr thrown_;
  std::atomic<bool> failed_{false}, stop_{false};
  detail::scratch_stack outside_;               // of loops
  std::vector<detail::scratch_stack> scratch_;  // a thread's, for what its tasks take
  std::vector<std::thread> workers_;
  alignas(64) std::atomic<std::uint32_t> generation_{0};  // of loops; workers sleep on it
  alignas(64) std::atomic<int> inside_{closed};           // workers in the loop, plus `closed` when none may enter
  alignas(64) std::atomic<std::int64_t> next_{0};
};

}  // namespace weft::cpu
