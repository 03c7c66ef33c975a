// What ranks that are processes give NCCL: each rank its own operations, in the order of its calls, on lanes. A lane is
// a communicator of NCCL's and a stream: a group's collectives are one, and what one rank sends another with one tag is
// another, of these two ranks alone. Invariant: on a GPU an operation waits for those of its lane that were called
// before it, for what its rank's queue was given before the call, and for its peers; for nothing else. So operations of
// several lanes wait for each other in a ring only where the program's own waits do.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <weft/backend/cuda/nccl_member.cuh>
#include <weft/comm/mpi.hpp>

namespace weft::gpu {

/// An operation that this rank has called.
struct nccl_posted {
  comm_call call;
  void* parts = nullptr;  // the seat's memory for what is folded here, or for a barrier
  event called, moved;    // on the rank's queue; on the lane's stream, once all was given
  bool given = true;      // under the job's lock; from then on `moved` stays as it is
};

/// All is under the job's lock, by the rank's thread or the watch; nothing waits.
class nccl_lane {
 public:
  /// A group's collectives, or a rank's messages to itself: the communicator is there already, or is none.
  nccl_lane(nccl_seat& seat, int ranks) : seat_(seat), ranks_(ranks), made_(true) {}
  /// Messages of two ranks: the sender, which is rank 0 of them, makes the communicator's name, and sends it by `ids`,
  /// a group of these ranks, with the lane's tag.
  nccl_lane(nccl_seat& seat, mpi& ids, bool sends, int peer, int tag) : seat_(seat), ranks_(2), sends_(sends) {
    if (sends) check(ncclGetUniqueId(&id_), "ncclGetUniqueId");
    id_moves_ = sends ? ids.send(&id_, sizeof id_, peer, tag) : ids.recv(&id_, sizeof id_, peer, tag);
  }
  nccl_lane(const nccl_lane&) = delete;
  nccl_lane& operator=(const nccl_lane&) = delete;

  nccl_seat& seat() { return seat_; }
  bool idle() const { return made_ && !begun_ && waiting_.empty(); }
  /// Whether all that it could give by itself is given: half of a message to the rank itself waits for the other half.
  bool settled() const { return idle() || (made_ && !seat_.comm); }
  void add(nccl_posted& o) { waiting_.push_back(&o); }
  /// An operation that was not given yet never is.
  void drop(nccl_posted& o) {
    if (begun_ == &o) begun_ = nullptr;
    std::erase(waiting_, &o);
  }
  /// The rank leaves by an exception.
  void abandon() noexcept { id_moves_.abandon(); }

  /// Gives NCCL what it takes: an operation is given once NCCL has the one before on the stream.
  void move_on() {
    if (!made_ && !make()) return;
    for (;;) {
      if (begun_) {
        if (seat_.comm && !is_ready(seat_.comm, "ncclGroupEnd")) return;
        seat_.busy = false;
        if (!end_part()) continue;
        seat_.queue->record(begun_->moved);
        std::exchange(begun_, nullptr)->given = true;
      }
      if (waiting_.empty()) return;
      if (!seat_.comm) {
        if (!copy_own()) return;
        continue;
      }
      begun_ = waiting_.front();
      waiting_.pop_front();
      at_ = 0;
      seat_.queue->wait(begun_->called);
      begin_part();
    }
  }

 private:
  bool make() {
    if (!id_moves_.test()) return false;
    ncclConfig_t config = nccl_config();
    const scoped_device here(seat_.gpu);
    made_ = nccl_job::step(seat_, asked_, "ncclCommInitRankConfig", nullptr, [&](ncclComm_t* comm) {
      return ncclCommInitRankConfig(comm, 2, id_, sends_ ? 0 : 1, &config);
    });
    return made_;
  }

  // An operation that is folded has several parts, each a group call and a kernel.
  bool folds() const { return nccl_member::folds(begun_->call, ranks_); }
  int64 elements() const { return std::min(nccl_member::piece(begun_->call, ranks_), begun_->call.count - at_); }
  void begin_part() {
    const comm_call& call = begun_->call;
    const nccl_member own(seat_, ranks_, begun_->parts);
    if (call.is(comm_operation::barrier)) return meet(begun_->parts);
    if (call.count == 0 && !call.is(comm_operation::all_to_allv)) return;
    own.enroll(call);
    together([&] { folds() ? own.bring(call, at_, elements()) : own.give(call, sends_ ? 1 : 0); });
  }
  /// Whether it was the last; else the next is begun.
  bool end_part() {
    if (!seat_.comm || !folds()) return true;
    nccl_member(seat_, ranks_, begun_->parts).fold(begun_->call, at_, elements());
    if ((at_ += elements()) >= begun_->call.count) return true;
    begin_part();
    return false;
  }
  /// A barrier: a sum of nothing that anybody reads.
  void meet(void* byte) {
    seat_.queue->zero(byte, 1);
    together([&] {
      check(ncclAllReduce(byte, byte, 1, ncclUint8, ncclMax, seat_.comm, seat_.queue->get()), "ncclAllReduce",
            seat_.comm);
    });
  }
  template <class F>
  void together(const F& f) {
    check(ncclGroupStart(), "ncclGroupStart");
    try {
      f();
    } catch (...) {
      ncclGroupEnd();
      throw;
    }
    check(ncclGroupEnd(), "ncclGroupEnd", seat_.comm);
    seat_.busy = true;
  }

  /// The next operation of a group of one, or the next message to itself whose other side is there too.
  bool copy_own() {
    nccl_posted* in = waiting_.front();
    nccl_posted* out = in;
    if (in->call.pairs()) {
      for (nccl_posted* const o : waiting_)
        if (o->call.operation != in->call.operation && out == in) out = o;
      if (out == in) return false;
      if (in->call.is(comm_operation::recv)) std::swap(in, out);
      require(in->call.count == out->call.count, "a rank sends itself ", in->call.count, " bytes for the ",
              out->call.count, " bytes that it receives; make the two sizes equal.");
    }
    seat_.queue->wait(in->called);
    seat_.queue->wait(out->called);
    nccl_member(seat_, 1).copy_alone(in->call, out->call);
    for (nccl_posted* const o : {in, out}) {
      seat_.queue->record(o->moved);
      o->given = true;
      std::erase(waiting_, o);
    }
    return true;
  }

  nccl_seat& seat_;
  const int ranks_;
  const bool sends_ = false;
  bool made_ = false, asked_ = false;
  ncclUniqueId id_{};
  request id_moves_;
  std::deque<nccl_posted*> waiting_;
  nccl_posted* begun_ = nullptr;  // NCCL has it, or the part from element at_ on, and hasn't yet put it on the stream
  int64 at_ = 0;
};

}  // namespace weft::gpu
