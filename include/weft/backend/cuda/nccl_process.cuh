// The operations on a device of a rank that is a process: its groups, their lanes, and who waits for them. Invariant:
// the rank's thread waits for a GPU without the job's lock, and where it doesn't look at MPI, the job's watch does: so
// a rank that fails is heard of, and its peers' GPUs go on, whatever they wait for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <weft/backend/cuda/kept_graph.cuh>
#include <weft/backend/cuda/nccl_lane.cuh>

namespace weft::gpu {

/// A group of ranks, as this one sees it.
struct nccl_process_group {
  nccl_process_group(mpi host_side, mpi names) : boot(std::move(host_side)), ids(std::move(names)) {}
  mpi boot, ids;  // ids: a group of its own, for the names of communicators of pairs
  nccl_lane* collectives = nullptr;
  std::map<std::tuple<bool, int, int>, nccl_lane*> pairs;  // by whether this rank sends, its peer, and the tag
};

class nccl_process final : public completion {
 public:
  static constexpr int watch_every = 10;  // ms: host messages move on so often where the rank waits for its GPU

  explicit nccl_process(int gpu)
      : gpu_(gpu),
        job_(
            [this] {
              if (!std::exchange(here_, true))
                use_device(gpu_);  // a thread begins on GPU 0, and would use memory there
              if (!kept_->any()) move_lanes();
              return weft::detail::mpi_process::get().operations().look();
            },
            watch_every) {
    weft::detail::mpi_process::get().operations().before_wait = [this] { launch_kept(); };
  }
  ~nccl_process() { weft::detail::mpi_process::get().operations().before_wait = nullptr; }

  nccl_job& job() { return job_; }
  /// The rank's function has thrown.
  void fail() noexcept {
    job_.rank_fails();
    job_.give_up();
    for (const auto& lane : lanes_) lane->abandon();
  }
  /// It has returned: waits for what it has called.
  void finish() {
    launch_kept();
    for (const auto& o : posted_) wait_until(*o, [&] { return o->moved.happened(); });
    job_.require_sound();
  }

  /// All ranks of the group call it.
  nccl_process_group& add_group(mpi boot) {
    groups_.push_back(std::make_unique<nccl_process_group>(boot, boot.split(0, boot.rank(), "names")));
    nccl_seat& seat = add_seat();
    if (boot.size() > 1) {
      ncclUniqueId id{};
      if (boot.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
      boot.broadcast(&id, sizeof id, 0).wait();
      ncclConfig_t config = nccl_config();
      const bool made = job_.make(*seats_.back(), 0, "ncclCommInitRankConfig", nullptr, [&](ncclComm_t* comm) {
        return ncclCommInitRankConfig(comm, boot.size(), id, boot.rank(), &config);
      });
      job_.require_sound();
      require(made, "NCCL made no communicator");
    }
    groups_.back()->collectives = &add_lane(std::make_unique<nccl_lane>(seat, boot.size()));
    return *groups_.back();
  }

  request post(nccl_process_group& group, const comm_call& call) {
    stream& queue = call.queue.as<stream>();
    require(queue.device() == gpu_, "rank ", group.boot.rank(), " of a group over nccl is on GPU ", gpu_,
            ", and calls an operation behind a queue of GPU ", queue.device(),
            "; open the queue with cuda_backend::open on the rank");
    job_.require_sound();
    nccl_lane& lane = call.pairs() ? lane_of(group, call) : *group.collectives;
    if (!lane.seat().queue->is_beside(queue)) join(lane, queue);
    void* const parts = memory_of(lane, group.boot.size(), call);
    if (free_.empty()) {
      const scoped_device here(gpu_);
      free_.push_back(posted_.size());
      posted_.push_back(std::make_unique<nccl_posted>());
      in_.push_back(nullptr);
    }
    const std::uint64_t ticket = free_.back();
    nccl_posted& o = *posted_[ticket];
    o.call = call;
    o.parts = parts;
    queue.record(o.called);
    free_.pop_back();
    in_[ticket] = &lane;
    job_.issue([&] {
      o.given = false;
      lane.add(o);
      lane.move_on();
    });
    if (kept_->any()) {  // in a graph in the order of the calls, so that the next step's has the same
      releasing unless{*this, ticket};
      settle_lanes();
      unless.holds = false;
    }
    messages_ += call.pairs();
    return {*this, ticket};
  }

  void wait(std::uint64_t ticket) override {
    const releasing after{*this, ticket};
    nccl_posted& o = *posted_[ticket];
    messages_ -= o.call.pairs();
    launch_kept();
    wait_until(o, [&] { return o.moved.happened(); });
  }
  void make_wait(std::uint64_t ticket, const queue_ref& by) override {
    if (!by.is<stream>()) return wait(ticket);
    const releasing after{*this, ticket};
    nccl_posted& o = *posted_[ticket];
    messages_ -= o.call.pairs();
    wait_until(o, [] { return true; });
    by.as<stream>().wait(o.moved);
  }
  bool test(std::uint64_t ticket) override {
    releasing after{*this, ticket};
    nccl_posted& o = *posted_[ticket];
    messages_ -= o.call.pairs();
    launch_kept();
    after.holds = is_given(o) && o.moved.happened();
    if (after.holds) job_.require_sound();
    if (!after.holds) messages_ += o.call.pairs();
    return after.holds;
  }
  void abandon(std::uint64_t ticket) noexcept override {
    const releasing after{*this, ticket};
    try {
      messages_ -= posted_[ticket]->call.pairs();
      if (is_given(*posted_[ticket]) && posted_[ticket]->moved.happened()) return;
    } catch (...) {
    }
    job_.give_up();
  }

 private:
  /// A graph ends as a whole before anything that a stream is given later begins, and begins so, too: where a rank
  /// sends before it receives, and its peer as well, that may be never, with a message in it that is still under way.
  void settle_for_graph() {
    require(messages_ == 0, "a graph of what a rank gives its GPU begins, or is launched, while ", messages_,
            " of its messages are under way, which all that comes behind it would wait for: wait for them first, or "
            "leave step_graph out");
    settle_lanes();
  }
  /// The rank's thread is about to wait for others. Where the graph can't be launched the rank has failed, also where
  /// it is a destructor that waits, and throws nothing.
  void launch_kept() {
    try {
      kept_->launch();
    } catch (const std::exception& e) {
      job_.issue([&] { weft::fail(e.what()); });
    }
  }
  /// What a graph had that couldn't be launched never comes to the peers, who may wait for it: all ranks end, whoever
  /// catches what was thrown.
  void lose(const char* why) noexcept {
    if (groups_.front()->boot.size() == 1) return;
    try {
      job_.issue([&] { weft::fail(why); });
    } catch (...) {  // whoever calls or waits for an operation from now on is told
    }
  }
  /// All that was called is given.
  void settle_lanes() {
    for (weft::detail::pause between;; between.after(false)) {
      bool all = true;
      job_.issue([&] {
        move_lanes();
        for (const auto& lane : lanes_) all = all && lane->settled();
      });
      if (all) return;
      weft::detail::mpi_process::get().operations().look();
    }
  }
  /// A lane's first operation behind a queue, or the first of another queue's, is in no graph: NCCL connects the ranks
  /// then, which may wait for the others' calls.
  void join(nccl_lane& lane, stream& queue) {
    stream& of_lane = *lane.seat().queue;
    of_lane.flush_graph();
    queue.flush_graph();
    job_.issue([&] { of_lane.join(queue, kept_); });
  }
  /// However it ends, nothing touches the operation's arrays afterwards, as far as the GPU still works.
  struct releasing {
    nccl_process& from;
    std::uint64_t ticket;
    bool holds = true;
    ~releasing() {
      if (!holds) return;
      if (!from.job_.is_sound()) from.settle(ticket);
      from.free_.push_back(ticket);
    }
  };
  void settle(std::uint64_t ticket) noexcept {
    try {
      in_[ticket]->drop(*posted_[ticket]);  // the watch looks at no lane any more
      in_[ticket]->seat().queue->synchronize();
    } catch (...) {
    }
  }

  /// Moves all on; whether NCCL has put it on the stream. The watch may have.
  bool is_given(const nccl_posted& o) {
    bool given = false;
    job_.issue([&] {
      move_lanes();
      given = o.given;
    });
    return given;
  }
  /// The rank's thread waits until it is given, and done(): host messages move on, too, as other ranks may wait for
  /// them.
  template <class Done>
  void wait_until(const nccl_posted& o, const Done& done) {
    for (weft::detail::pause between;; between.after(false)) {
      if (is_given(o) && done()) break;
      weft::detail::mpi_process::get().operations().look();
    }
    job_.require_sound();
  }
  /// Under the job's lock.
  void move_lanes() {
    for (const auto& lane : lanes_)
      if (!lane->idle()) lane->move_on();
  }

  nccl_seat& add_seat() {
    const scoped_device here(gpu_);
    seats_.push_back(job_.add(1));
    nccl_seat& seat = seats_.back()->at(0);
    seat.gpu = gpu_;
    seat.queue = std::make_unique<stream>(gpu_);
    return seat;
  }
  nccl_lane& add_lane(std::unique_ptr<nccl_lane> made) {
    job_.issue([&] { lanes_.push_back(std::move(made)); });
    return *lanes_.back();
  }
  nccl_lane& lane_of(nccl_process_group& group, const comm_call& call) {
    const bool own = call.peer == group.boot.rank(), sends = call.is(comm_operation::send);
    nccl_lane*& lane = group.pairs[{sends && !own, call.peer, call.tag}];
    if (!lane)
      lane = &add_lane(own ? std::make_unique<nccl_lane>(add_seat(), 1)
                           : std::make_unique<nccl_lane>(add_seat(), group.ids, sends, call.peer, call.tag));
    return *lane;
  }
  /// Memory for what is folded here, and for a barrier.
  static void* memory_of(nccl_lane& lane, int ranks, const comm_call& call) {
    nccl_seat& seat = lane.seat();
    if (call.is(comm_operation::barrier) && ranks > 1) return seat.scratch.at_least(1, seat.gpu, false);
    if (!nccl_member::folds(call, ranks)) return nullptr;
    require(ranks <= most_ranks, "a group of ", ranks, " ranks folds on GPUs, and ", most_ranks, " are the most");
    return nccl_member(seat, ranks).reserve(call);
  }

  const int gpu_;
  std::vector<nccl_group*> seats_;  // the job's: a seat each
  std::vector<std::unique_ptr<nccl_process_group>> groups_;
  std::deque<std::unique_ptr<nccl_lane>> lanes_;
  std::vector<std::unique_ptr<nccl_posted>> posted_;  // by ticket, as are these
  std::vector<nccl_lane*> in_;
  std::vector<std::uint64_t> free_;
  int messages_ = 0;   // that nobody has waited for
  bool here_ = false;  // whether the watch is on this GPU
  const std::shared_ptr<kept_graph> kept_ = std::make_shared<kept_graph>(
      [this] { settle_for_graph(); }, [this](const char* why) { lose(why); }, [this] { job_.require_sound(); });
  nccl_job job_;  // its watch ends first
};

}  // namespace weft::gpu
