// The order in which a device's streams do what they were given: as late as the program's waits permit, so that a wait
// that is missing is seen. Invariant: work of one stream runs in the order it was given, one piece at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace device {

using held_lock = std::unique_lock<std::mutex>;

class streams {
 public:
  using name = const void*;
  /// The number of this piece in its stream.
  std::uint64_t give(name stream, std::function<void(held_lock&)> work) {
    queue& q = queues_[stream];
    q.waiting.push_back(std::move(work));
    return ++q.given;
  }
  /// Runs a stream up to a piece.
  void finish(held_lock& held, name stream, std::uint64_t number) {
    queue& q = queues_[stream];
    while (q.done < number) {
      if (q.busy) {
        changed_.wait(held);
        continue;
      }
      const auto work = std::move(q.waiting.front());
      q.waiting.pop_front();
      q.busy = true;
      work(held);
      q.busy = false;
      ++q.done;
      changed_.notify_all();
    }
  }
  void finish(held_lock& held, name stream) { finish(held, stream, queues_[stream].given); }
  void finish_all(held_lock& held) {
    for (auto& [name, q] : queues_) finish(held, name, q.given);
  }
  std::uint64_t given(name stream) { return queues_[stream].given; }
  bool done(name stream, std::uint64_t number) { return queues_[stream].done >= number; }

  /// A function of the host: somebody may wait for it who never calls CUDA, so a thread brings the stream there.
  void give_host(std::mutex& lock, name stream, std::function<void()> f) {
    bring(lock, stream, give(stream, unlocked(std::move(f))));
  }
  static std::function<void(held_lock&)> unlocked(std::function<void()> f) {
    return [f = std::move(f)](held_lock& held) {
      held.unlock();
      f();
      held.lock();
    };
  }
  /// A thread brings a stream to a piece.
  void bring(std::mutex& lock, name stream, std::uint64_t number) {
    due_.emplace_back(stream, number);
    if (!driver_.joinable()) driver_ = std::thread([this, &lock] { drive(lock); });
    changed_.notify_all();
  }
  void stop(held_lock& held) {
    ends_ = true;
    changed_.notify_all();
    if (!driver_.joinable()) return;
    held.unlock();
    driver_.join();
    held.lock();
  }

 private:
  struct queue {
    std::deque<std::function<void(held_lock&)>> waiting;
    std::uint64_t given = 0, done = 0;
    bool busy = false;
  };
  void drive(std::mutex& lock) {
    held_lock held(lock);
    for (;;) {
      changed_.wait(held, [&] { return ends_ || !due_.empty(); });
      if (due_.empty()) return;
      const auto [stream, number] = due_.front();
      due_.pop_front();
      finish(held, stream, number);
    }
  }
  std::map<name, queue> queues_;
  std::deque<std::pair<name, std::uint64_t>> due_;
  std::condition_variable changed_;
  std::thread driver_;
  bool ends_ = false;
};

}  // namespace device
