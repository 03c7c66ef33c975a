// Operations of a communicator that knows no queue, ordered behind one: the queue itself posts them when their turn
// comes, and waits for them where it is asked to. Invariant: while the queue runs, the rank's own thread posts nothing.
#pragma once

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
    finish(ticket);
    if (!(by == queue_)) queue_.synchronize();
  }
  void wait(std::uint64_t ticket) override {
    finish(ticket);
    queue_.synchronize();
  }
  bool test(std::uint64_t ticket) override {
    wait(ticket);
    return true;
  }
  void abandon(std::uint64_t ticket) noexcept override { open_[ticket].reset(); }

 private:
  struct operation final : queued_work {
    void run() override { under_way = by->post(call); }
    std::shared_ptr<poster> by;
    comm_call call;
    request under_way;
  };
  struct end final : queued_work {
    explicit end(std::shared_ptr<operation> of) : ended(std::move(of)) {}
    void run() override { ended->under_way.wait(); }
    std::shared_ptr<operation> ended;
  };
  WEFT_LINKED void finish(std::uint64_t ticket) {
    queue_.enqueue(std::make_shared<end>(std::exchange(open_[ticket], nullptr)));
    while (!open_.empty() && !open_.back()) open_.pop_back();
  }

  queue_ref queue_;
  std::vector<std::shared_ptr<operation>> open_;  // by ticket; null: waited for
};

}  // namespace weft::detail
