// The communicator whose ranks are threads of one process: any number of ranks on any number of cores.
// Invariant: data moves straight from the buffers of one rank to those of another, and results don't depend on timing.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "weft/comm/concept.hpp"
#include "weft/comm/detail/check.hpp"
#include "weft/comm/detail/lane.hpp"

namespace weft {
namespace detail {

/// One group of ranks: a lane for its collectives, and one for each pair that has exchanged something.
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
  lane& pair(int from, int to) {
    std::atomic<lane*>& place = pairs_[static_cast<std::size_t>(from * size() + to)];
    if (lane* found = place.load(std::memory_order_acquire)) return *found;
    return make_pair(place, from, to);
  }

  void wake() override { collectives_.wake(); }

 private:
  [[gnu::cold, gnu::noinline]] lane& make_pair(std::atomic<lane*>& place, int from, int to) {
    const std::lock_guard lock(hub_.mutex());
    if (lane* found = place.load(std::memory_order_relaxed)) return *found;
    lane& made = hub_.keep(std::make_unique<lane>(hub_, std::vector<int>{world_rank(from), world_rank(to)}, name_));
    place.store(&made, std::memory_order_release);
    return made;
  }

  hub& hub_;
  std::vector<int> members_;
  std::string name_;
  std::vector<std::atomic<lane*>> pairs_;
  lane collectives_;
};

}  // namespace detail

/// Ranks are threads. Satisfies `communicator_policy`.
///
/// Reductions fold the ranks' values in rank order, so a result is bitwise the same on all ranks and in every run.
/// Posting does not block until 32 operations of a group are outstanding. No memory is allocated after a group (or the
/// first exchange of a pair) was made. Ranks that disagree on a collective, and ranks that can never go on, end with an
/// error that says who calls what; a rank that throws ends the others.
class threads {
 public:
  int rank() const { return rank_; }
  int size() const { return group_->size(); }

  request all_reduce(const void* in, void* out, std::int64_t count, dtype type, reduction how,
                     const collective_label& label = {}) {
    detail::check_buffers("all_reduce", in, out, count);
    return post({in, out, count, detail::verb::all_reduce, label, type, how});
  }
  request all_gather(const void* in, void* out, std::int64_t bytes, const collective_label& label = {}) {
    detail::check_buffers("all_gather", in, out, bytes);
    return post({in, out, bytes, detail::verb::all_gather, label});
  }
  request reduce_scatter(const void* in, void* out, std::int64_t count, dtype type, reduction how,
                         const collective_label& label = {}) {
    detail::check_buffers("reduce_scatter", in, out, count);
    return post({in, out, count, detail::verb::reduce_scatter, label, type, how});
  }
  request all_to_all(const void* in, void* out, std::int64_t bytes, const collective_label& label = {}) {
    detail::check_buffers("all_to_all", in, out, bytes);
    require(in != out || bytes == 0 || size() == 1, "all_to_all can't work in place; give it a second buffer.");
    return post({in, out, bytes, detail::verb::all_to_all, label});
  }
  request broadcast(void* buffer, std::int64_t bytes, int root, const collective_label& label = {}) {
    detail::check_buffers("broadcast", buffer, buffer, bytes);
    detail::check_peer("broadcast", root, size());
    return post({buffer, buffer, bytes, detail::verb::broadcast, label, dtype::u8, reduction::sum, root});
  }
  request send(const void* in, std::int64_t bytes, int to, const collective_label& label = {}) {
    detail::check_buffers("send", in, in, bytes);
    detail::check_peer("send", to, size());
    return group_->pair(rank_, to).post(0, {in, nullptr, bytes, detail::verb::send, label});
  }
  request recv(void* out, std::int64_t bytes, int from, const collective_label& label = {}) {
    detail::check_buffers("recv", out, out, bytes);
    detail::check_peer("recv", from, size());
    return group_->pair(from, rank_).post(1, {nullptr, out, bytes, detail::verb::recv, label});
  }
  request barrier(const collective_label& label = {}) {
    return post({nullptr, nullptr, 0, detail::verb::barrier, label});
  }

  /// A split is meant for setting up: its groups live until launch returns.
  [[gnu::cold, gnu::noinline]] threads split(int color, int key, const char* name) {
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

  [[gnu::noinline]] request post(const detail::call& what) { return group_->collectives().post(rank_, what); }
  void exchange(const void* in, void* out, std::size_t bytes) {
    post({in, out, static_cast<std::int64_t>(bytes), detail::verb::split}).wait();
  }

  detail::thread_group* group_;
  int rank_;
};

}  // namespace weft
