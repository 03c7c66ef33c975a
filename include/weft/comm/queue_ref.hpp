// A rank's queue, as a communicator sees it: whatever backend's it is. Invariant: it owns nothing; the queue outlives
// it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "weft/comm/device_mover.hpp"
#include "weft/core/queue.hpp"

namespace weft {

/// What a queue runs when its turn comes.
class queued_work {
 public:
  virtual ~queued_work() = default;
  virtual void run() = 0;
};

/// A moment in what a queue was given.
class queue_mark {
 public:
  virtual ~queue_mark() = default;
  /// Returns when all that was given before has run; throws what failed of it. Once.
  virtual void wait() = 0;
};

/// The queue behind which an operation is ordered: it begins once the kernels that were given before have run, and what
/// is given afterwards, once it was waited for, runs after it. Empty: kernels have run when their calls return.
class queue_ref {
 public:
  queue_ref() = default;
  template <ordered_queue Q>
  explicit queue_ref(Q& queue) {
    if constexpr (Q::runs_behind) {
      at_ = &queue;
      does_ = &functions_of<Q>;
    }
  }

  bool runs_behind() const { return at_ != nullptr; }
  /// Of a queue that runs behind.
  void enqueue(std::shared_ptr<queued_work> work) const { does_->enqueue(at_, std::move(work)); }
  /// Returns when all that the queue was given has run.
  void synchronize() const {
    if (at_) does_->synchronize(at_);
  }
  /// This moment, for a host that waits later, while it gives more. Where the queue has a `landing` (core/queue.hpp),
  /// it waits for nothing that is given behind it; else for all that was given by then. Of a queue that runs behind.
  std::unique_ptr<queue_mark> mark() const { return does_->mark(at_); }
  /// Whether what it computes with lies on a device between whose arrays its backend moves data itself.
  bool moves_data() const { return at_ && does_->mover; }
  /// What does so for a group of so many members (comm/device_mover.hpp).
  std::unique_ptr<device_mover> mover(int members) const { return does_->mover(at_, members); }
  /// Whether it is a Q.
  template <class Q>
  bool is() const {
    return does_ == &functions_of<Q>;
  }
  /// The queue itself, for a communicator of its backend's.
  template <class Q>
  Q& as() const {
    return *static_cast<Q*>(at_);
  }
  friend bool operator==(const queue_ref& a, const queue_ref& b) { return a.at_ == b.at_; }

 private:
  struct functions {
    void (*enqueue)(void*, std::shared_ptr<queued_work>);
    void (*synchronize)(void*);
    std::unique_ptr<queue_mark> (*mark)(void*);
    std::unique_ptr<device_mover> (*mover)(void*, int);  // null: none
  };
  template <class Q>
  struct synchronizing final : queue_mark {
    explicit synchronizing(Q& q) : queue(q) {}
    void wait() override { queue.synchronize(); }
    Q& queue;
  };
  template <class Q>
  struct landed final : queue_mark {
    explicit landed(Q& q) : byte(q, 1) {
      static constexpr std::byte anything{};
      byte.fetch(&anything);
    }
    void wait() override { byte.wait(); }
    typename Q::landing byte;
  };
  template <class Q>
  static std::unique_ptr<queue_mark> mark_of(void* q) {
    if constexpr (landing_queue<Q>)
      return std::make_unique<landed<Q>>(*static_cast<Q*>(q));
    else
      return std::make_unique<synchronizing<Q>>(*static_cast<Q*>(q));
  }
  template <class Q>
  static constexpr auto mover_of() -> decltype(functions::mover) {
    if constexpr (requires(Q & q) { q.mover(1); })
      return [](void* q, int members) -> std::unique_ptr<device_mover> { return static_cast<Q*>(q)->mover(members); };
    return nullptr;
  }
  template <class Q>
  static constexpr functions functions_of{[](void* q, std::shared_ptr<queued_work> work) {
                                            static_cast<Q*>(q)->enqueue([held = std::move(work)] { held->run(); });
                                          },
                                          [](void* q) { static_cast<Q*>(q)->synchronize(); }, mark_of<Q>,
                                          mover_of<Q>()};

  void* at_ = nullptr;
  const functions* does_ = nullptr;
};

}  // namespace weft
