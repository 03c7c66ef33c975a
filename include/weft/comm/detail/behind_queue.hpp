// Operations of a communicator that knows no queue, ordered behind one: the queue itself posts them when their turn
// comes, and waits for them where it is asked to. Invariant: while the queue runs, the rank's own thread posts nothing,
// and touches no operation but by what it gives the queue.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "weft/comm/call.hpp"
#include "weft/comm/request.hpp"

namespace weft::detail {

/// What posts a call: any communicator behind its interface.
class poster {
 public:
  virtual ~poster() = default;
  virtual request post(const comm_call& call) = 0;
};

/// An operation has a beginning in the queue, where it is posted, and an end, where the queue waits for it. The end is
/// given when somebody first asks for it: by wait(queue), by wait(), or by a test, which moves it on so far.
class behind_queue final : public completion {
 public:
  explicit behind_queue(queue_ref queue) : queue_(queue) {}

  WEFT_LINKED request post(std::shared_ptr<poster> by, const comm_call& call) {
    auto made = std::make_shared<operation>();
    made->by = std::move(by), made->call = call;
    queue_.enqueue(made);
    open_.push_back(std::move(made));
    return {*this, open_.size() - 1};
  }
  void make_wait(std::uint64_t ticket, const queue_ref& by) override {
    if (!(by == queue_)) return wait(ticket);
    const std::shared_ptr<operation> o = close(ticket);
    if (!o->given_end) queue_.enqueue(std::make_shared<end>(o));
  }
  WEFT_LINKED void wait(std::uint64_t ticket) override {
    const std::shared_ptr<operation> o = close(ticket);
    if (!o->given_end) give_end(o);
    o->given_end->wait();  // for nothing that was given behind it
    require_complete(*o);
  }
  WEFT_LINKED bool test(std::uint64_t ticket) override {
    const std::shared_ptr<operation> o = open_[ticket];
    if (!o->given_end) give_end(o);
    if (o->is == fate::to_come) return false;
    close(ticket);
    if (o->is == fate::failed) queue_.synchronize();  // throws why; the queue runs nothing of what it had
    require_complete(*o);
    return true;
  }
  /// Gives it up when the queue has come to it, and waits for that: until then it may be posted, with buffers that have
  /// to be there. All that other ranks call before it is given or given up by then, so it comes.
  WEFT_LINKED void abandon(std::uint64_t ticket) noexcept override {
    try {
      queue_.enqueue(std::make_shared<giving_up>(close(ticket)));
      queue_.synchronize();
    } catch (...) {  // the queue has failed: what it had isn't run any more
    }
  }

 private:
  enum class fate { to_come, complete, failed };
  struct operation final : queued_work {
    void run() override { under_way = by->post(call); }
    std::shared_ptr<poster> by;
    comm_call call;
    request under_way;                      // the queue's
    std::unique_ptr<queue_mark> given_end;  // the host's: behind the end; null where there is none yet
    std::atomic<fate> is{fate::to_come};
  };
  struct end final : queued_work {
    explicit end(std::shared_ptr<operation> o) : of(std::move(o)) {}
    ~end() override {  // a queue that has failed runs nothing more
      if (of->is == fate::to_come) of->is = fate::failed;
    }
    void run() override {
      of->under_way.wait();
      of->is = fate::complete;
    }
    std::shared_ptr<operation> of;
  };
  struct giving_up final : queued_work {
    explicit giving_up(std::shared_ptr<operation> o) : of(std::move(o)) {}
    void run() override { of->under_way.abandon(); }
    std::shared_ptr<operation> of;
  };

  void give_end(const std::shared_ptr<operation>& o) {
    queue_.enqueue(std::make_shared<end>(o));
    o->given_end = queue_.mark();
  }
  std::shared_ptr<operation> close(std::uint64_t ticket) {
    std::shared_ptr<operation> o = std::exchange(open_[ticket], nullptr);
    while (!open_.empty() && !open_.back()) open_.pop_back();
    return o;
  }
  static void require_complete(const operation& o) {
    if (o.is == fate::failed)
      throw aborted(text("This ", name_of(o.call.operation), " can't finish: its queue failed before it came to it"));
  }

  queue_ref queue_;
  std::vector<std::shared_ptr<operation>> open_;  // by ticket; null: nobody asks any more
};

}  // namespace weft::detail
