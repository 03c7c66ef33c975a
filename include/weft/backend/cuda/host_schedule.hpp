// Whose turn it is among the fibers that stand for a block's threads. Invariant: one runs at a time, until it waits for
// others; who runs next is drawn from the seed: each block by one of three habits (any thread alike, one thread before
// another, one warp before another).
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weft/backend/cuda/fiber.hpp>
#include <weft/backend/cuda/kernel.hpp>
#include <weft/core/error.hpp>

namespace weft::gpu {

/// How a kernel is started on the host.
struct host_launch {
  int64 blocks = 1;
  int threads = 32;  // of a block; a multiple of 32
  std::size_t shared_bytes = 0;
  std::uint64_t seed = 1;
};

namespace detail {

/// Hands the turn among the threads of a block, and finds barriers at which they don't all meet.
class host_schedule {
 public:
  enum class waits_for : std::uint8_t { turn, warp, block, next_block };
  static constexpr std::size_t slot_bytes = 32;
  struct stopped {};  // thrown through a body when another thread has failed

  explicit host_schedule(const host_launch& l)
      : launch(l), random_(l.seed), lanes_(std::make_unique<lane[]>(threads())) {
    for (int64 b = 0; b < l.blocks; ++b) order_.push_back(b);
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[draw(i)]);
    shared = std::make_unique<std::byte[]>(l.shared_bytes);
    begin_block();
    send_slice();
  }

  const host_launch launch;
  int64 block = 0;                      // the index of the block that runs
  std::unique_ptr<std::byte[]> shared;  // filled with 0xff when a block begins: NaN, to a reader of unwritten numbers

  /// Slot `parity` of a thread's two for exchanges within its warp: while one is read, the other is written.
  std::byte* slot(int thread, int parity) { return lanes_[at(thread)].slots[parity]; }

  /// Calls body(thread) for every thread, each on a fiber of its own, until all have returned. Throws what one of them
  /// throws.
  template <class Body>
  void run(Body body) {
    fibers threads_of_block(launch.threads, [&](int me) {
      try {
        if (!failure_) body(me);
      } catch (const stopped&) {
      } catch (...) {
        stop(std::current_exception());
      }
    });
    fibers_ = &threads_of_block;
    while (!finished_ && !failure_) threads_of_block.resume(running_);
    for (int i = 0; i < launch.threads; ++i)  // what waits is told that it is over
      while (!threads_of_block.ended(i)) threads_of_block.resume(i);
    fibers_ = nullptr;
    if (failure_) std::rethrow_exception(failure_);
  }
  /// Waits until all threads of the warp or block are here. Throws `stopped` when they can't come.
  void meet(int me, waits_for whom, int line) {
    lanes_[at(me)].state = whom;
    lanes_[at(me)].line = line;
    if (whom == waits_for::warp)
      release(whom, me / warp_size * warp_size, warp_size);
    else
      release(whom, 0, launch.threads);
    send_slice();
    await(me);
  }
  /// This thread's body has returned. True when there is another block to run.
  bool next_block(int me) {
    lanes_[at(me)].state = waits_for::next_block;
    if (++done_ == launch.threads) begin_block();
    send_slice();
    await(me);
    return !finished_;
  }

 private:
  struct lane {
    waits_for state = waits_for::next_block;
    int line = 0;
    std::uint64_t priority = 0;
    alignas(16) std::byte slots[2][slot_bytes];
  };
  static std::size_t at(int thread) { return static_cast<std::size_t>(thread); }
  std::size_t threads() const { return static_cast<std::size_t>(launch.threads); }

  std::uint64_t draw(std::uint64_t below) {  // splitmix64 (Steele, Lea & Flood 2014)
    std::uint64_t z = random_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
  }

  void await(int me) {
    if (running_ != me && !failure_ && !finished_) fibers_->leave(me);
    if (failure_) throw stopped();
  }
  void begin_block() {
    done_ = 0;
    if (next_ == order_.size()) {
      finished_ = true;
      return;
    }
    block = order_[next_++];
    if (launch.shared_bytes) std::memset(shared.get(), 0xff, launch.shared_bytes);
    choose_habit();
    for (int i = 0; i < launch.threads; ++i) make_ready(i);
  }
  // Priorities (Burckhardt et al. 2010) find what equal chances hardly ever do: a thread or a warp that runs far ahead
  // of another.
  void choose_habit() {
    const std::uint64_t habit = draw(3);
    std::uint64_t of_warp = 0;
    for (int i = 0; i < launch.threads; ++i) {
      if (i % warp_size == 0) of_warp = draw(1u << 20) << 20;
      lanes_[at(i)].priority = habit == 0 ? 0 : draw(1u << 20) + (habit == 2 ? of_warp : 0);
    }
  }
  // Takes a thread of the highest priority out of those that can run; which of them, the seed says.
  int take_ready() {
    std::uint64_t highest = 0;
    for (int t : ready_) highest = lanes_[at(t)].priority > highest ? lanes_[at(t)].priority : highest;
    std::size_t i = draw(ready_.size());
    while (lanes_[at(ready_[i])].priority != highest) i = (i + 1) % ready_.size();
    std::swap(ready_[i], ready_.back());
    const int taken = ready_.back();
    ready_.pop_back();
    return taken;
  }
  void make_ready(int thread) {
    lanes_[at(thread)].state = waits_for::turn;
    ready_.push_back(thread);
  }
  // Lets `count` threads from `first` go on, if all of them wait at one place.
  void release(waits_for whom, int first, int count) {
    for (int i = first; i < first + count; ++i)
      if (lanes_[at(i)].state != whom) return;
    for (int i = first; i < first + count; ++i)
      if (lanes_[at(i)].line != lanes_[at(first)].line) return diverged(first, i);
    for (int i = first; i < first + count; ++i) make_ready(i);
  }
  void send_slice() {
    if (finished_ || failure_) return;
    if (ready_.empty()) {  // all wait, and no group is complete
      int waiting = 0;
      while (lanes_[at(waiting)].state == waits_for::next_block) ++waiting;
      const int from = lanes_[at(waiting)].state == waits_for::warp ? waiting / warp_size * warp_size : 0;
      int other = from;
      while (lanes_[at(other)].state == lanes_[at(waiting)].state) ++other;
      return diverged(waiting, other);
    }
    running_ = take_ready();
  }
  std::string place(int thread) const {
    const lane& l = lanes_[at(thread)];
    const std::string who = "thread " + std::to_string(thread);
    if (l.state == waits_for::next_block) return who + " has returned";
    return who + " waits for its " + (l.state == waits_for::warp ? "warp" : "block") + " at line " +
           std::to_string(l.line);
  }
  void diverged(int a, int b) {
    stop(std::make_exception_ptr(failure("a diverged barrier in block " + std::to_string(block) + ": " + place(a) +
                                         ", but " + place(b) +
                                         "; every thread of the group has to reach the same barrier")));
  }
  void stop(std::exception_ptr why) {
    if (!failure_) failure_ = why;
  }

  std::uint64_t random_;
  fibers* fibers_ = nullptr;
  std::unique_ptr<lane[]> lanes_;
  std::vector<int64> order_;
  std::size_t next_ = 0;
  std::vector<int> ready_;
  int running_ = -1, done_ = 0;
  bool finished_ = false;
  std::exception_ptr failure_;
};

}  // namespace detail

}  // namespace weft::gpu
