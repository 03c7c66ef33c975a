// What ranks on GPUs of their own send each other, as NCCL's operations on streams of the group's own, tied to the
// ranks' streams by events. Invariant: an operation is given for all its members at once, when all have called it and
// agree, and runs on each GPU after the one given before: none waits there for a rank that never comes.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <weft/backend/cuda/nccl_member.cuh>

namespace weft::gpu {

/// The last operation of NCCL on each GPU, of all launches of this process. NCCL wants operations of several
/// communicators on one GPU to run one after the other, in the same order on all GPUs: two that wait for each other's
/// place there would never end. (From 2.26 on it sees to that itself where NCCL_LAUNCH_ORDER_IMPLICIT is 1.)
struct nccl_order {
  static nccl_order& of_process() {
    static nccl_order& one = *new nccl_order;  // CUDA may end before what is static
    return one;
  }
  /// Under the lock.
  event& last(int gpu) {
    std::unique_ptr<event>& e = events[gpu];
    if (!e) {
      const scoped_device here(gpu);
      e = std::make_unique<event>();
    }
    return *e;
  }
  std::mutex lock;  // taken before a launch's own, whose watch is free meanwhile
  std::map<int, std::unique_ptr<event>> events;
};

/// What is one rank's is in nccl_member.cuh.
class nccl_mover final : public device_mover {
 public:
  /// members[m]: the rank of member m in the group.
  nccl_mover(nccl_job& job, nccl_group& group, std::vector<int> members)
      : job_(job), group_(group), members_(std::move(members)) {
    require(size() <= most_ranks, "a group of ", size(), " ranks folds on GPUs, and ", most_ranks, " are the most");
    calls_.resize(places * members_.size());
    called_.resize(calls_.size());
    moved_.resize(calls_.size());
    each([&](int m) {  // an event is of one GPU
      const scoped_device here(seat(m).gpu);
      for (std::size_t place = 0; place < places; ++place)
        called_[spot(place, m)].emplace(), moved_[spot(place, m)].emplace();
    });
  }

  void called(std::size_t place, int m, const comm_call& call) override {
    job_.require_sound();
    const int gpu = call.queue.as<stream>().device();
    require(gpu == seat(m).gpu, "rank ", rank(m), " of a group over nccl is on GPU ", seat(m).gpu,
            ", and calls an operation behind a queue of GPU ", gpu,
            "; open the queue with cuda_backend::open on the rank");
    const std::size_t at = spot(place, m);
    calls_[at] = call;
    call.queue.as<stream>().record(*called_[at]);
  }
  void move(std::size_t place) override {
    const comm_call* const calls = &calls_[spot(place, 0)];
    try {
      if (nccl_member::folds(calls[0], size())) each([&](int m) { member(m).reserve(calls[m]); });
      nccl_order& order = nccl_order::of_process();
      job_.require_sound();
      const std::lock_guard alone(order.lock);
      job_.issue([&] {
        each([&](int m) { queue(m).wait(*called_[spot(place, m)]); });
        if (group_.size() == 1 || is_own(calls[0])) {
          member(0).copy_alone(calls[0], calls[size() - 1]);
        } else {
          each([&](int m) { queue(m).wait(order.last(seat(m).gpu)); });
          give(place, calls);
          each([&](int m) { queue(m).record(order.last(seat(m).gpu)); });
        }
        each([&](int m) { queue(m).record(*moved_[spot(place, m)]); });
      });
    } catch (...) {
      each([&](int m) { settle(m); });
      throw;
    }
  }
  void precede(std::size_t place, const queue_ref& by) override {
    job_.require_sound();
    stream& own = by.as<stream>();
    bool here = false;  // a member's: all that matters to its GPU
    each([&](int m) { here = here || seat(m).gpu == own.device(); });
    each([&](int m) {
      if (!here || seat(m).gpu == own.device()) own.wait(*moved_[spot(place, m)]);
    });
  }
  // An operation in the host's memory stands in a place too: its events never happened yet, or are of long ago.
  bool done(std::size_t place) override {
    job_.require_sound();
    bool all = true;
    each([&](int m) { all = all && moved_[spot(place, m)]->happened(); });
    return all;
  }
  void finish(std::size_t place) override {
    each([&](int m) { moved_[spot(place, m)]->synchronize(); });
    job_.require_sound();
  }

 private:
  int size() const { return static_cast<int>(members_.size()); }
  std::size_t spot(std::size_t place, int m) const { return place * members_.size() + static_cast<std::size_t>(m); }
  int rank(int m) const { return members_[static_cast<std::size_t>(m)]; }
  nccl_seat& seat(int m) { return group_.at(rank(m)); }
  stream& queue(int m) { return *seat(m).queue; }
  nccl_member member(int m) { return {seat(m), group_.size()}; }
  template <class F>
  void each(const F& f) const {
    for (int m = 0; m < size(); ++m) f(m);
  }
  bool is_own(const comm_call& call) const { return call.pairs() && rank(0) == rank(1); }
  /// Afterwards nothing that was given touches a member's arrays, as far as its GPU still works.
  void settle(int m) noexcept {
    try {
      queue(m).synchronize();
    } catch (...) {
    }
  }

  /// f(m) for every member, as one group call of NCCL's; returns when all of it is on the streams.
  template <class F>
  void together(const F& f) {
    check(ncclGroupStart(), "ncclGroupStart");
    try {
      each(f);
    } catch (...) {
      ncclGroupEnd();
      throw;
    }
    check(ncclGroupEnd(), "ncclGroupEnd", seat(0).comm);
    each([&](int m) { wait_until_ready(seat(m).comm, "ncclGroupEnd", [&] { job_.look(); }); });
  }
  void give(std::size_t place, const comm_call* calls) {
    const comm_call& first = calls[0];
    const bool nothing = first.count == 0 && !first.is(comm_operation::all_to_allv);
    if (first.is(comm_operation::barrier))
      return each([&](int m) { each([&](int other) { queue(m).wait(*called_[spot(place, other)]); }); });
    if (nothing) return;
    enroll(calls);
    if (nccl_member::folds(first, size())) return fold(calls);
    together([&](int m) { member(m).give(calls[m], first.pairs() ? rank(1 - m) : 0); });
  }
  /// NCCL wants all ranks' arrays registered, or none.
  void enroll(const comm_call* calls) {
    int in_of = 0, out_of = 0;
    nccl_member::arrays first;
    each([&](int m) {
      const nccl_member::arrays own = member(m).enroll(calls[m]);
      const auto agree = [&](std::optional<bool>& all, int& of, std::optional<bool> mine) {
        if (!mine) return;
        if (!all) all = mine, of = m;
        const int with = *all ? of : m, without = *all ? m : of;
        require(*all == *mine, "rank ", rank(with), " calls ", name_of(calls[with].operation),
                " with an array in registered memory, and rank ", rank(without),
                " with one that isn't: NCCL takes all or none; give every rank its arrays from registered_memory()");
      };
      agree(first.in, in_of, own.in);
      // What is sent and what receives it are of one operation.
      calls[m].is(comm_operation::recv) ? agree(first.in, in_of, own.out) : agree(first.out, out_of, own.out);
    });
  }
  void fold(const comm_call* calls) {
    const int64 n = calls[0].count, most = nccl_member::piece(calls[0], size());
    for (int64 begin = 0; begin < n; begin += most) {
      const int64 count = std::min(most, n - begin);
      together([&](int m) { member(m).bring(calls[m], begin, count); });
      each([&](int m) { member(m).fold(calls[m], begin, count); });
    }
  }

  nccl_job& job_;
  nccl_group& group_;
  std::vector<int> members_;
  std::vector<comm_call> calls_;                      // by place and member, as are these
  std::vector<std::optional<event>> called_, moved_;  // on the member's GPU
};

}  // namespace weft::gpu
