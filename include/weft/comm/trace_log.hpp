// What a run's collectives were: per rank, in the order of their calls, with bytes and times.
// Invariant: a rank's events are written by that rank alone (where its queue calls the communicator, by that); read
// others' only when their ranks are done.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/comm/label.hpp"
#include "weft/comm/request.hpp"

namespace weft {

/// A collective that a rank took part in.
struct trace_event {
  const char* operation = "";  // "all_reduce", ...
  std::string axis;            // the name of the group, "world" if it was never split
  std::string label;           // what it is for (text_of), "weights of layer 3"; may be empty
  /// The larger of this rank's two buffers.
  std::int64_t bytes = 0;
  /// What this rank receives from others when each pair exchanges just what it must. In an all_reduce of n elements
  /// rank r sums the o elements from floor(n*r/P) to floor(n*(r+1)/P): it receives (P-1)*o + (n-o) of them, 2(P-1)/P*n
  /// if the split is even and 2(P-1)*n over all ranks in any case. In all_gather, reduce_scatter and all_to_all it is
  /// (P-1)/P of the full size; in broadcast (but on the root) and recv all of it; in send and barrier nothing.
  std::int64_t wire_bytes = 0;
  double begin_us = 0;  // microseconds since the log was made: the call
  double wait_us = -1;  // when wait was called; -1 if it was not
  double end_us = -1;   // when wait returned, test said true, or the queue went on past it; -1 if nothing of that was
  std::string at = {};  // the line that asks for it, "model.cpp:34"; empty: the trainer or a unit's use does by itself
  bool queue_waits = false;  // from wait_us to end_us the rank's queue waited, not the host
};

/// Sums over the events of one operation on one axis.
struct trace_total {
  std::string operation, axis;
  std::int64_t calls = 0, bytes = 0, wire_bytes = 0;
};

namespace detail {

/// One rank's part of a log: its events, and the requests that have to tell when they end. When a queue went on past an
/// operation, the queue notes, and who reads the events learns.
class trace_recorder final : public completion {
 public:
  explicit trace_recorder(std::chrono::steady_clock::time_point origin) : origin_(origin) {}

  /// Times `start()`, which returns the inner request.
  template <class Start>
  request record(const char* operation, const std::string& axis, const collective_label& label, std::int64_t bytes,
                 std::int64_t wire_bytes, const Start& start) {
    if (paused) return start();
    learn();
    const std::size_t index = events.size();
    events.push_back({operation, axis, text_of(label), bytes, wire_bytes, now(), -1, -1, text_of(label.at)});
    if (free_.empty()) {
      free_.push_back(open_.size());
      open_.emplace_back();
    }
    const std::size_t place = free_.back();
    open_[place].inner = start();
    open_[place].event = index;
    free_.pop_back();
    return {*this, place};
  }

  WEFT_LINKED void wait(std::uint64_t ticket) override {
    request inner = close(ticket);
    const std::size_t event = open_[ticket].event;
    events[event].wait_us = now();
    events[event].queue_waits = thread != std::thread::id() && thread != std::this_thread::get_id();
    inner.wait();
    events[event].end_us = now();
  }
  WEFT_LINKED void make_wait(std::uint64_t ticket, const queue_ref& queue) override {
    if (!queue.runs_behind()) return wait(ticket);
    request inner = close(ticket);
    trace_event& event = events[open_[ticket].event];
    event.wait_us = now();
    event.queue_waits = true;
    inner.wait(queue);
    auto noted = std::make_shared<passing>(*this);
    queue.enqueue(noted);
    passings_.push_back({open_[ticket].event, std::move(noted)});
  }
  WEFT_LINKED bool test(std::uint64_t ticket) override {
    request inner = close(ticket);
    if (!inner.test()) {
      open_[ticket].inner = std::move(inner);
      free_.pop_back();
      return false;
    }
    events[open_[ticket].event].end_us = now();
    return true;
  }
  void abandon(std::uint64_t ticket) noexcept override { close(ticket).abandon(); }

  bool idle() const { return free_.size() == open_.size(); }
  void clear() {
    events.clear();
    passings_.clear();
  }
  /// When the queue went on past the operations that it has come to, in their order.
  WEFT_LINKED void learn() {
    std::size_t known = 0;
    for (; known < passings_.size(); ++known) {
      const double at = passings_[known].noted->at_us;
      if (at < 0) break;
      events[passings_[known].event].end_us = at;
    }
    passings_.erase(passings_.begin(), passings_.begin() + static_cast<std::ptrdiff_t>(known));
  }

  std::vector<trace_event> events;
  bool paused = false;
  std::thread::id thread;  // the rank's, where that is known; another that waits is its queue's

 private:
  struct open_request {
    request inner;
    std::size_t event = 0;
  };

  struct passing final : queued_work {
    explicit passing(const trace_recorder& by) : origin(by.origin_) {}
    void run() override { at_us = since(origin); }
    const std::chrono::steady_clock::time_point origin;
    std::atomic<double> at_us{-1};
  };
  struct noted_passing {
    std::size_t event;
    std::shared_ptr<passing> noted;
  };

  request close(std::uint64_t ticket) {
    free_.push_back(ticket);  // has room: `record` took the place from here
    return std::move(open_[ticket].inner);
  }
  static double since(std::chrono::steady_clock::time_point origin) {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - origin).count();
  }
  double now() const { return since(origin_); }

  std::chrono::steady_clock::time_point origin_;
  std::vector<open_request> open_;
  std::vector<std::size_t> free_;
  std::vector<noted_passing> passings_;  // whose moment isn't known, in the queue's order
};

}  // namespace detail

/// The events of all ranks of a launch. It must outlive the requests of the ranks that it traces.
class trace_log {
 public:
  explicit trace_log(int ranks) {
    require(ranks >= 1, "A trace log is for 1 rank or more, not ", ranks, ".");
    for (int r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<detail::trace_recorder>(origin_));
  }

  int ranks() const { return static_cast<int>(ranks_.size()); }
  /// To be called by that rank; by others once it is done, one at a time. What a queue has yet to come to has no end.
  const std::vector<trace_event>& events(int rank) const {
    at(rank).learn();
    return at(rank).events;
  }

  /// Stops or resumes recording what a rank calls from now on; to be called by that rank.
  void pause(int rank, bool paused = true) { at(rank).paused = paused; }
  /// The moment that times count from.
  std::chrono::steady_clock::time_point origin() const { return origin_; }

  /// Forgets a rank's events, to be called by that rank; nothing may be outstanding.
  void clear(int rank) {
    require(at(rank).idle(), "Rank ", rank, " clears its trace while a request is outstanding; wait for it first.");
    at(rank).clear();
  }

  /// One rank's sums, in the order in which each (operation, axis) first occurs; of its events from number `first` on.
  WEFT_LINKED std::vector<trace_total> totals(int rank, std::size_t first = 0) const {
    std::vector<trace_total> sums;
    for (std::size_t i = first; i < events(rank).size(); ++i) {
      const trace_event& event = events(rank)[i];
      trace_total* sum = nullptr;
      for (trace_total& known : sums) {
        if (known.operation == event.operation && known.axis == event.axis) sum = &known;
      }
      if (sum == nullptr) sum = &sums.emplace_back(trace_total{event.operation, event.axis});
      ++sum->calls;
      sum->bytes += event.bytes;
      sum->wire_bytes += event.wire_bytes;
    }
    return sums;
  }
  /// One rank's sum for one operation on one axis; zeros if there was none.
  trace_total total(int rank, const char* operation, const char* axis) const {
    for (trace_total& sum : totals(rank)) {
      if (sum.operation == operation && sum.axis == axis) return std::move(sum);
    }
    return {operation, axis};
  }

  detail::trace_recorder& recorder(int rank) { return at(rank); }

 private:
  detail::trace_recorder& at(int rank) const {
    require(rank >= 0 && rank < ranks(), "The trace log has ranks 0 to ", ranks() - 1, ", not ", rank, ".");
    return *ranks_[static_cast<std::size_t>(rank)];
  }

  std::chrono::steady_clock::time_point origin_ = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<detail::trace_recorder>> ranks_;
};

}  // namespace weft
