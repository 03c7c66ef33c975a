// Copies between the host and a device that the host doesn't wait for: they go through memory that the device can read
// by itself. Plain C++ over any queue that has events. Invariant: such memory is written to, or freed, only once the
// last copy from it or to it is done.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include <weft/core/error.hpp>

namespace weft::gpu {

/// How much of such memory a queue has: a base of the queue's. It belongs to the queue's rank.
class pinned_count {
 public:
  /// Bytes of the host's memory, page-locked, that the queue's uploads and landings hold now.
  std::size_t pinned_bytes() const { return bytes_; }
  /// That `more` were taken, and `less` given back.
  void count_pinned(std::size_t more, std::size_t less) { bytes_ = bytes_ + more - less; }

 private:
  std::size_t bytes_ = 0;
};

/// Uploads of up to `most` bytes, each through the next of a ring of `places`; of more where a queue keeps its work
/// back in graphs, whose uploads wait neither for their own graph nor for the one before. Event and Pinned: the
/// queue's. A place's memory is taken when it is first used, and again where a larger upload comes to it; it ends with
/// the ring.
template <class Event, class Pinned>
class staged_uploads {
 public:
  static constexpr std::size_t places = 16, most = std::size_t{1} << 20;

  staged_uploads() = default;
  staged_uploads(const staged_uploads&) = delete;
  staged_uploads& operator=(const staged_uploads&) = delete;

  /// Gives q the copy; the host may write over its own at once. False, and nothing done, for what is too large or where
  /// there is no memory. Waits where as many uploads before it as there are places are still to come: for the first of
  /// them.
  template <class Queue>
  bool upload(Queue& q, const void* host, void* to, std::size_t bytes) {
    if (bytes > most) return false;
    if (bytes == 0) return true;
    if (ring_.empty()) ring_ = std::vector<place>(places);
    if constexpr (requires { q.keeps_back(); })
      if (q.keeps_back() && ring_[next_].used) {
        ring_[next_].used = !ring_[next_].done.happened();
        if (ring_[next_].used) ring_.emplace(ring_.begin() + static_cast<std::ptrdiff_t>(next_));
      }
    place& p = ring_[next_];
    if (p.used) p.done.synchronize();
    p.used = false;
    if (p.bytes < bytes) {
      q.count_pinned(0, p.bytes);
      p.memory = {}, p.bytes = 0;
      std::size_t room = 4096;
      while (room < bytes) room *= 2;
      if (!(p.memory = Queue::pinned_memory(room))) return false;
      p.bytes = room;
      q.count_pinned(room, 0);
    }
    next_ = (next_ + 1) % ring_.size();
    std::memcpy(p.memory.get(), host, bytes);
    p.used = true;
    q.copy_pinned(p.memory.get(), to, bytes);
    q.record(p.done);
    return true;
  }

 private:
  struct place {
    Pinned memory{};
    std::size_t bytes = 0;
    Event done;
    bool used = false;  // by a copy that may be under way
  };
  std::vector<place> ring_;
  std::size_t next_ = 0;
};

/// A few bytes on their way to the host (see core/queue.hpp).
template <class Queue>
class landing {
 public:
  landing(Queue& q, std::size_t bytes) : queue_(q), bytes_(bytes), memory_(Queue::pinned_memory(bytes)) {
    require(static_cast<bool>(memory_), "there is no memory of the host's that the device can write to: ", bytes,
            " bytes were asked for");
    queue_.count_pinned(bytes, 0);
  }
  landing(const landing&) = delete;
  landing& operator=(const landing&) = delete;
  ~landing() {
    try {
      if (used_) arrived_.synchronize();
    } catch (...) {  // the device has failed, and was heard of elsewhere
    }
    queue_.count_pinned(0, bytes_);
  }

  void fetch(const void* from) {
    used_ = true;
    queue_.copy_pinned(from, memory_.get(), bytes_);
    queue_.record(arrived_);
  }
  const void* wait() {
    arrived_.synchronize();
    return memory_.get();
  }

 private:
  Queue& queue_;
  std::size_t bytes_;
  typename Queue::pinned memory_;
  typename Queue::event arrived_;
  bool used_ = false;
};

}  // namespace weft::gpu
