// The communicator of one rank: every collective is a copy, or nothing at all.
// Invariant: no threads; all but send and recv are complete when the call returns.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "weft/comm/concept.hpp"
#include "weft/comm/detail/check.hpp"

namespace weft {
namespace detail {

/// Sends and receives of a rank to itself, matched in order; a ticket is 2·index for a send, 2·index + 1 for a recv.
class mailbox final : public completion {
 public:
  request post(bool receives, const void* in, void* out, std::int64_t bytes, const collective_label& label) {
    const bool matches = !waiting_.empty() && waiting_receives_ != receives;
    if (matches && !(waiting_.front().bytes == bytes && waiting_.front().label == label)) {
      const part own{in, out, bytes, label};
      fail_mismatch(receives ? waiting_.front() : own, receives ? own : waiting_.front());
    }
    const std::uint64_t ticket = 2 * posted_[receives]++ + receives;
    if (!matches) {
      waiting_receives_ = receives;
      waiting_.push_back({in, out, bytes, label});
      return {*this, ticket};
    }
    const part peer = waiting_.front();
    waiting_.erase(waiting_.begin());
    ++matched_;
    if (bytes > 0) std::memmove(receives ? out : peer.out, receives ? peer.in : in, static_cast<std::size_t>(bytes));
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
  struct part {
    const void* in;
    void* out;
    std::int64_t bytes;
    collective_label label;
  };
  [[noreturn, gnu::cold, gnu::noinline]] static void fail_mismatch(const part& sent, const part& received) {
    require(sent.bytes == received.bytes, "a rank sends itself ", sent.bytes, " bytes and receives ", received.bytes,
            "; make the two sizes equal.");
    fail("a rank sends itself \"", text_of(sent.label), "\" and receives \"", text_of(received.label),
         "\"; receive what is sent, in its order, with its label.");
  }
  std::vector<part> waiting_;  // all sends, or all receives
  bool waiting_receives_ = false;
  std::uint64_t posted_[2] = {0, 0};
  std::uint64_t matched_ = 0;
};

}  // namespace detail

/// One rank. Satisfies `communicator_policy`; outputs are copies of inputs where the two differ.
class single_rank {
 public:
  single_rank() : mailbox_(std::make_shared<detail::mailbox>()) {}

  int rank() const { return 0; }
  int size() const { return 1; }

  request all_reduce(const void* in, void* out, std::int64_t count, dtype type, reduction,
                     const collective_label& = {}) {
    return detail::copy_alone("all_reduce", in, out, count, static_cast<std::int64_t>(size_of(type)));
  }
  request all_gather(const void* in, void* out, std::int64_t bytes, const collective_label& = {}) {
    return detail::copy_alone("all_gather", in, out, bytes, 1);
  }
  request reduce_scatter(const void* in, void* out, std::int64_t count, dtype type, reduction,
                         const collective_label& = {}) {
    return detail::copy_alone("reduce_scatter", in, out, count, static_cast<std::int64_t>(size_of(type)));
  }
  request all_to_all(const void* in, void* out, std::int64_t bytes, const collective_label& = {}) {
    return detail::copy_alone("all_to_all", in, out, bytes, 1);
  }
  request broadcast(void* buffer, std::int64_t bytes, int root, const collective_label& = {}) {
    detail::check_peer("broadcast", root, 1);
    return detail::copy_alone("broadcast", buffer, buffer, bytes, 1);
  }
  request send(const void* in, std::int64_t bytes, int to, const collective_label& label = {}) {
    detail::check_buffers("send", in, in, bytes);
    detail::check_peer("send", to, 1);
    return mailbox_->post(false, in, nullptr, bytes, label);
  }
  request recv(void* out, std::int64_t bytes, int from, const collective_label& label = {}) {
    detail::check_buffers("recv", out, out, bytes);
    detail::check_peer("recv", from, 1);
    return mailbox_->post(true, nullptr, out, bytes, label);
  }
  request barrier(const collective_label& = {}) { return {}; }
  single_rank split(int, int, const char*) { return single_rank(); }

  /// Runs f(world) in the calling thread.
  template <class F>
  static void launch(int ranks, F&& f) {
    require(ranks == 1, "the communicator self has 1 rank, not ", ranks, "; use threads for more.");
    single_rank world;
    f(world);
  }

 private:
  std::shared_ptr<detail::mailbox> mailbox_;
};

}  // namespace weft
