// The communicator whose ranks are threads of one process: any number of ranks on any number of cores.
// Invariant: data moves straight from the buffers of one rank to those of another, and results don't depend on timing.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "weft/comm/concept.hpp"
#include "weft/comm/detail/lane.hpp"

namespace weft {
namespace detail {

/// One group of ranks: a lane for its collectives, and one for each pair and tag that have exchanged something.
class thread_group final : public kept {
 public:
  [[gnu::cold]] thread_group(hub& owner, std::vector<int> members, std::string name)
      : hub_(owner),
        members_(std::move(members)),
        name_(std::move(name)),
        pairs_(members_.size() * members_.size()),
        collectives_(owner, members_, name_) {}

  hub& owner() { return hub_; }
  int size() const { return static_cast<int>(members_.size()); }
  int world_rank(int member) const { return members_[static_cast<std::size_t>(member)]; }
  lane& collectives() { return collectives_; }
  WEFT_LINKED lane& pair(int from, int to, int tag) {
    std::atomic<tagged_lane*>& first = pairs_[static_cast<std::size_t>(from * size() + to)];
    if (tagged_lane* found = find(first, tag)) return *found;
    return make_pair(first, from, to, tag);
  }

  void wake() override { collectives_.wake(); }

 private:
  // A pair's lanes are a list, which grows at its front and loses nothing.
  struct tagged_lane final : lane {
    tagged_lane(hub& owner, std::vector<int> members, std::string name, int of_tag, tagged_lane* others)
        : lane(owner, std::move(members), std::move(name)), tag(of_tag), next(others) {}
    const int tag;
    tagged_lane* const next;
  };
  static tagged_lane* find(const std::atomic<tagged_lane*>& first, int tag) {
    tagged_lane* l = first.load(std::memory_order_acquire);
    while (l && l->tag != tag) l = l->next;
    return l;
  }
  [[gnu::cold]] WEFT_LINKED lane& make_pair(std::atomic<tagged_lane*>& first, int from, int to, int tag) {
    const std::lock_guard lock(hub_.mutex());
    if (tagged_lane* found = find(first, tag)) return *found;
    std::vector<int> members{world_rank(from), world_rank(to)};
    tagged_lane& made = hub_.keep(
        std::make_unique<tagged_lane>(hub_, std::move(members), name_, tag, first.load(std::memory_order_relaxed)));
    first.store(&made, std::memory_order_release);
    return made;
  }

  hub& hub_;
  std::vector<int> members_;
  std::string name_;
  std::vector<std::atomic<tagged_lane*>> pairs_;
  lane collectives_;
};

}  // namespace detail

/// Ranks are threads. Satisfies `communicator_policy`.
///
/// Reductions fold the ranks' values in rank order, so a result is bitwise the same on all ranks and in every run.
/// Posting does not block until 32 operations of a group, or of a pair with one tag, are outstanding. No memory is
/// allocated after a group (or the first exchange of a pair with a tag) was made. Ranks that disagree on a collective,
/// and ranks that can never go on, end with an error that says who calls what; a rank that throws ends the others.
class threads : public comm_operations<threads> {
 public:
  int rank() const { return rank_; }
  int size() const { return group_->size(); }
  /// Whether the queue's backend moves data between its ranks' arrays; without it, or a queue, they lie on the host.
  static bool takes_queue(const queue_ref& queue) { return queue.moves_data(); }

  WEFT_LINKED request post(const comm_call& call) {
    if (call.is(comm_operation::send)) return group_->pair(rank_, call.peer, call.tag).post(0, call);
    if (call.is(comm_operation::recv)) return group_->pair(call.peer, rank_, call.tag).post(1, call);
    return group_->collectives().post(rank_, call);
  }

  /// A split is meant for setting up: its groups live until launch returns.
  [[gnu::cold]] WEFT_LINKED threads split(int color, int key, const char* name) {
    struct choice {
      int color, key;
    };
    const choice mine{color, key};
    std::vector<choice> all(static_cast<std::size_t>(size()));
    const auto chosen = [&](int r) -> const choice& { return all[static_cast<std::size_t>(r)]; };
    exchange(&mine, all.data(), sizeof mine);
    std::vector<int> order;  // ranks by key; those of one key stay in order
    for (int r = 0; r < size(); ++r) {
      if (chosen(r).color != color) continue;
      auto place = order.end();
      while (place != order.begin() && chosen(*(place - 1)).key > chosen(r).key) --place;
      order.insert(place, r);
    }
    int my_rank = 0;
    std::vector<int> members;
    for (const int r : order) {
      if (r == rank_) my_rank = static_cast<int>(members.size());
      members.push_back(group_->world_rank(r));
    }
    detail::thread_group* made = nullptr;
    if (my_rank == 0) {
      detail::hub& owner = group_->owner();
      auto group = std::make_unique<detail::thread_group>(owner, std::move(members), name);
      const std::lock_guard lock(owner.mutex());
      made = &owner.keep(std::move(group));
    }
    std::vector<detail::thread_group*> groups(all.size());
    exchange(&made, groups.data(), sizeof made);
    return {*groups[static_cast<std::size_t>(order[0])], my_rank};
  }

  /// Runs f(world) on `ranks` ranks: rank 0 in the calling thread, the others in threads of their own, called "weft
  /// rank 1" and so on. Returns when all are done. When a rank throws, the others are thrown out of their collectives,
  /// and its error is rethrown here.
  template <class F>
  static void launch(int ranks, F&& f) {
    require(ranks >= 1 && ranks < 65536, "threads::launch takes 1 to 65535 ranks, not ", ranks, ".");
    detail::hub hub(ranks);
    std::vector<int> members;
    for (int r = 0; r < ranks; ++r) members.push_back(r);
    auto& world = hub.keep(std::make_unique<detail::thread_group>(hub, std::move(members), "world"));
    const auto run = [&](int rank) {
      std::exception_ptr failure;
      try {
        threads c(world, rank);
        f(c);
      } catch (...) {
        failure = std::current_exception();
      }
      hub.finish(rank, std::move(failure));
    };
    std::vector<std::thread> others;
    others.reserve(static_cast<std::size_t>(ranks));
    std::exception_ptr unstarted;
    try {
      for (int r = 1; r < ranks; ++r)
        others.push_back(std::thread([&run, r] {
          detail::name_this_thread(r);
          run(r);
        }));
    } catch (...) {
      unstarted = std::current_exception();
    }
    if (unstarted) {
      hub.end(0, "a thread for a rank could not be started.", unstarted);
    } else {
      run(0);
    }
    for (auto& thread : others) thread.join();
    hub.rethrow();
  }

 private:
  threads(detail::thread_group& group, int rank) : group_(&group), rank_(rank) {}

  void exchange(const void* in, void* out, std::size_t bytes) {
    post({.operation = comm_operation::split, .in = in, .out = out, .count = static_cast<std::int64_t>(bytes)}).wait();
  }

  detail::thread_group* group_;
  int rank_;
};

}  // namespace weft
