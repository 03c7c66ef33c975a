// The communicator of one rank: every collective is a copy, or nothing at all.
// Invariant: no threads; all but send and recv are complete when the call returns.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "weft/comm/concept.hpp"

namespace weft {
namespace detail {

/// Sends and receives of a rank to itself with one tag, matched in order; a ticket is 2·index for a send, 2·index + 1
/// for a recv.
class mailbox final : public completion_without_queue {
 public:
  WEFT_LINKED request post(const comm_call& call) {
    const bool receives = call.is(comm_operation::recv);
    const bool matches = !waiting_.empty() && waiting_.front().operation != call.operation;
    const comm_call& sent = matches && receives ? waiting_.front() : call;
    const comm_call& received = matches && !receives ? waiting_.front() : call;
    if (matches && !detail::agree(sent, received)) fail_mismatch(sent, received);
    const std::uint64_t ticket = 2 * posted_[receives]++ + receives;
    if (!matches) {
      waiting_.push_back(call);
      return {*this, ticket};
    }
    ++matched_;
    if (call.count > 0) std::memmove(received.out, sent.in, static_cast<std::size_t>(call.count));
    waiting_.erase(waiting_.begin());
    return {};
  }

  void wait(std::uint64_t ticket) override {
    require(test(ticket), "a rank waits for a ", ticket % 2 ? "recv from" : "send to",
            " itself whose other half was not called yet; call both, then wait.");
  }
  bool test(std::uint64_t ticket) override { return ticket / 2 < matched_; }
  void abandon(std::uint64_t) noexcept override {
    waiting_.clear();
    matched_ = posted_[0] = posted_[1] = posted_[0] > posted_[1] ? posted_[0] : posted_[1];
  }

 private:
  [[noreturn, gnu::cold]] WEFT_LINKED static void fail_mismatch(const comm_call& sent, const comm_call& received) {
    require(sent.count == received.count, "a rank sends itself ", sent.count, " bytes and receives ", received.count,
            "; make the two sizes equal.");
    fail("a rank sends itself \"", text_of(sent.label), "\" and receives \"", text_of(received.label),
         "\"; receive what is sent, in its order, with its label.");
  }
  std::vector<comm_call> waiting_;  // all sends, or all receives
  std::uint64_t posted_[2] = {0, 0};
  std::uint64_t matched_ = 0;
};

/// One for each tag.
class mailboxes {
 public:
  WEFT_LINKED mailbox& of(int tag) {
    for (const tagged& t : all_)
      if (t.tag == tag) return *t.box;
    all_.push_back({tag, std::make_unique<mailbox>()});
    return *all_.back().box;
  }

 private:
  struct tagged {
    int tag;
    std::unique_ptr<mailbox> box;
  };
  std::vector<tagged> all_;
};

}  // namespace detail

/// One rank. Satisfies `communicator_policy`; outputs are copies of inputs where the two differ.
class single_rank : public comm_operations<single_rank> {
 public:
  single_rank() : mailboxes_(std::make_shared<detail::mailboxes>()) {}

  int rank() const { return 0; }
  int size() const { return 1; }

  request post(const comm_call& call) {
    return call.pairs() ? mailboxes_->of(call.tag).post(call) : detail::copy_alone(call);
  }
  single_rank split(int, int, const char*) { return single_rank(); }

  /// Runs f(world) in the calling thread.
  template <class F>
  static void launch(int ranks, F&& f) {
    require(ranks == 1, "the communicator single_rank has 1 rank, not ", ranks, "; use threads for more.");
    single_rank world;
    f(world);
  }

 private:
  std::shared_ptr<detail::mailboxes> mailboxes_;
};

}  // namespace weft
