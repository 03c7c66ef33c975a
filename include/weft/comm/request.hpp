// A request: one collective under way, whichever communicator started it.
// Invariant: a request is finished exactly once: by wait(), by a test() that says true, or by its destructor.
#pragma once

#include <cstdint>
#include <exception>
#include <utility>

#include "weft/comm/queue_ref.hpp"
#include "weft/core/error.hpp"

namespace weft {

/// Thrown out of a collective on ranks whose peers failed, so that they end too. `launch` never rethrows it: it
/// rethrows the error of the rank that failed first.
class aborted : public failure {
 public:
  using failure::failure;
};

/// What a communicator implements so that its requests can be waited for. A ticket names one of its operations.
class completion {
 public:
  /// Returns once the operation is complete; throws when it can't complete. Called at most once a ticket.
  virtual void wait(std::uint64_t ticket) = 0;
  /// What the queue is given from now on runs only once the operation is complete. The host waits for no more than that
  /// all ranks have called it; on a queue that doesn't run behind, as wait(). Called at most once a ticket.
  virtual void make_wait(std::uint64_t ticket, const queue_ref& queue) = 0;
  /// Moves the operation on without blocking; true once it is complete.
  virtual bool test(std::uint64_t ticket) = 0;
  /// The owner is unwinding from an exception: afterwards nobody touches the operation's buffers.
  virtual void abandon(std::uint64_t ticket) noexcept = 0;

 protected:
  ~completion() = default;
};

/// That of a communicator which knows no queue: its rank's own thread moves its operations on, and nobody else may. So
/// wait(queue) is wait(), and blocks who calls it. Behind a queue that is the queue itself, never the host: it posts
/// such a communicator's operations and waits for them when their turn comes (any_communicator::behind).
class completion_without_queue : public completion {
 public:
  void make_wait(std::uint64_t ticket, const queue_ref& /*queue*/) final { wait(ticket); }

 protected:
  ~completion_without_queue() = default;
};

/// One asynchronous operation. Until wait() returns (or test() says true) its buffers must live, its inputs stay
/// unchanged and its outputs unread. It must not outlive the `launch` (or the communicator) that it came from.
///
/// A request that was never waited for is waited for by its destructor, which swallows the error of an abort (the next
/// collective reports it). While an exception unwinds the stack, the destructor does not wait: it ends all ranks.
class [[nodiscard("wait() for the operation to finish")]] request {
 public:
  /// A request that is already finished.
  request() = default;
  /// What a communicator returns: the operation of its own that `ticket` names, which `source` waits for; source
  /// outlives it.
  request(completion & source, std::uint64_t ticket)
      : source_(&source), ticket_(ticket), exceptions_(std::uncaught_exceptions()) {}
  request(request && other) noexcept
      : source_(std::exchange(other.source_, nullptr)), ticket_(other.ticket_), exceptions_(other.exceptions_) {}
  request& operator=(request&& other) noexcept {
    if (this != &other) {
      finish();
      source_ = std::exchange(other.source_, nullptr);
      ticket_ = other.ticket_;
      exceptions_ = other.exceptions_;
    }
    return *this;
  }
  ~request() { finish(); }

  /// Blocks until the operation is complete on this rank: outputs may be read and every buffer reused. Does nothing on
  /// a finished request.
  /// @throws weft::aborted when the operation can't finish: the ranks disagree on it, or another rank failed. The
  /// message says why, and who.
  void wait() {
    if (completion* source = std::exchange(source_, nullptr)) source->wait(ticket_);
  }

  /// The same for what the queue is given from now on: outputs are there for kernels, and buffers may be used again by
  /// kernels. The queue waits, not the host: the host at most until all ranks have called the operation. As wait() on a
  /// queue that doesn't run behind, and where the operation isn't ordered behind this queue (any_communicator::behind).
  void wait(const queue_ref& queue) {
    if (completion* source = std::exchange(source_, nullptr)) source->make_wait(ticket_, queue);
  }

  /// Moves the operation on without blocking; true once it is complete. Throws as wait() does.
  bool test() {
    completion* source = std::exchange(source_, nullptr);
    if (source == nullptr || source->test(ticket_)) return true;
    source_ = source;
    return false;
  }

  /// Gives the operation up, as a communicator that is made of another does where ranks fail: nobody touches its
  /// buffers afterwards, for which it may have to wait until a queue has come to it. All ranks end, unless it was
  /// complete.
  void abandon() noexcept {
    if (completion* source = std::exchange(source_, nullptr)) source->abandon(ticket_);
  }

 private:
  WEFT_LINKED void finish() noexcept {
    completion* source = std::exchange(source_, nullptr);
    if (source == nullptr) return;
    if (std::uncaught_exceptions() > exceptions_) return source->abandon(ticket_);
    try {
      source->wait(ticket_);
    } catch (...) {  // all ranks are ending; the next collective, or launch, says why
    }
  }

  completion* source_ = nullptr;
  std::uint64_t ticket_ = 0;
  int exceptions_ = 0;
};

}  // namespace weft
