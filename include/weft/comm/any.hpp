// One type for every communicator, so that code behind it is compiled once.
// Invariant: it does what the communicator inside does; a collective of one rank makes no virtual call, and no trace.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "weft/comm/concept.hpp"
#include "weft/comm/detail/behind_queue.hpp"
#include "weft/comm/single_rank.hpp"

namespace weft {

/// Holds any communicator; a default one holds `single_rank`. Satisfies `communicator`, not `communicator_policy`: it
/// can't start ranks. Copies share what they hold.
class any_communicator : public comm_operations<any_communicator> {
 public:
  any_communicator() : any_communicator(single_rank()) {}
  template <class C>
  requires(!std::same_as<C, any_communicator> && communicator<C>) any_communicator(C inner)
      : rank_(inner.rank()), size_(inner.size()), joins_graphs_(weft::joins_graphs<C>) {
    held_ = std::make_shared<model<C>>(std::move(inner));
  }

  int rank() const { return rank_; }
  int size() const { return size_; }

  request post(const comm_call& call) {
    if (queue_.runs_behind()) [[unlikely]]
      return post_behind(call);
    const bool alone = size_ == 1 && !call.pairs() && !call.queue.runs_behind();
    return alone ? detail::copy_alone(call) : held_->post(call);
  }

  /// Whether the communicator inside orders calls behind this queue by itself.
  bool takes_queue(const queue_ref& queue) const { return held_->takes_queue(queue); }
  /// Whether its operations become part of a graph that the queue keeps back.
  bool joins_graphs() const { return joins_graphs_; }
  /// The same ranks, with every operation ordered behind `queue`, which is this rank's; their groups' too. C does it by
  /// itself if its takes_queue(queue) says so (a call then names the queue); else the queue calls C.
  any_communicator behind(queue_ref queue) const {
    any_communicator out(*this);
    out.queue_ = queue;
    out.waits_ = queue.runs_behind() && !takes_queue(queue) ? std::make_shared<detail::behind_queue>(queue) : nullptr;
    return out;
  }
  /// The same ranks, for small messages in the host's memory: C, or what its own host() gives; at once where C takes
  /// the queue, else behind it, since the queue calls C. It outlives its requests.
  any_communicator host() const {
    any_communicator out(*this);
    if (held_->give_host(out)) {
      if (waits_) out = out.behind(queue_);
    } else if (!waits_) {
      out.queue_ = {};
    }
    out.on_host_ = true;
    return out;
  }
  any_communicator split(int color, int key, const char* name) {
    queue_.synchronize();
    any_communicator made = held_->split(color, key, name);
    return made.behind(queue_);
  }

 private:
  struct interface : detail::poster {
    virtual bool takes_queue(const queue_ref&) const = 0;
    virtual bool give_host(any_communicator&) = 0;
    virtual any_communicator split(int, int, const char*) = 0;
  };
  template <class C>
  struct model final : interface {
    explicit model(C c) : inner(std::move(c)) {}
    request post(const comm_call& call) override { return inner.post(call); }
    bool takes_queue(const queue_ref& queue) const override { return detail::takes_queue(inner, queue); }
    bool give_host(any_communicator& out) override {
      if constexpr (requires { out = inner.host(); }) return out = inner.host(), true;
      return false;
    }
    any_communicator split(int color, int key, const char* name) override { return inner.split(color, key, name); }
    C inner;
  };

  [[gnu::cold]] WEFT_LINKED request post_behind(const comm_call& call) {
    if (on_host_ && size_ == 1 && !call.pairs()) return detail::copy_alone(call);  // no kernel has a part in it
    if (waits_) return waits_->post(held_, call);
    comm_call ordered = call;
    ordered.queue = queue_;
    return held_->post(ordered);
  }

  std::shared_ptr<interface> held_;
  int rank_, size_;
  bool joins_graphs_;
  queue_ref queue_;
  std::shared_ptr<detail::behind_queue> waits_;  // where there is a queue that held_ doesn't take
  bool on_host_ = false;                         // messages are in the host's memory
};

}  // namespace weft
