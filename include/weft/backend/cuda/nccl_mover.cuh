// What ranks on GPUs of their own send each other, as NCCL's operations on streams of the group's own, tied to the
// ranks' streams by events. Invariant: an operation is given for all its members at once, when all have called it and
// agree, and runs on each GPU after the one given before: none waits there for a rank that never comes.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <weft/backend/cuda/kernels/fold.hpp>
#include <weft/backend/cuda/nccl_group.cuh>

namespace weft::gpu {

/// Sums are NCCL's, in an order and with roundings of its own. Its maxima and minima of floats lose a NaN, so these are
/// folded here, from the parts of all ranks, which take up to `fold_bytes` of memory on each GPU.
class nccl_mover final : public device_mover {
 public:
  static constexpr int64 fold_bytes = int64{32} << 20;

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
      if (folds(calls[0])) reserve(calls[0]);
      job_.issue([&](nccl_order& order) {
        each([&](int m) { queue(m).wait(*called_[spot(place, m)]); });
        if (group_.size() == 1 || is_own(calls[0])) {
          copy_alone(calls[0], calls[size() - 1]);
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

  static const std::byte* from(const void* first, int64 at) { return static_cast<const std::byte*>(first) + at; }
  static std::byte* to(void* first, int64 at) { return static_cast<std::byte*>(first) + at; }

  /// Every operation of a group of one, and what a rank sends itself.
  void copy_alone(const comm_call& in, const comm_call& out) {
    const int64 bytes = in.is(comm_operation::all_to_allv) ? in.send_bytes[0] : in.bytes();
    const scoped_device here(seat(0).gpu);
    if (bytes > 0 && in.in != out.out) queue(0).copy(in.in, out.out, static_cast<std::size_t>(bytes));
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
  // To and from member m, in a group call.
  void send(int m, const void* data, int64 bytes, int peer) {
    if (bytes > 0)
      check(ncclSend(data, static_cast<std::size_t>(bytes), ncclUint8, peer, seat(m).comm, queue(m).get()), "ncclSend",
            seat(m).comm);
  }
  void receive(int m, void* data, int64 bytes, int peer) {
    if (bytes > 0)
      check(ncclRecv(data, static_cast<std::size_t>(bytes), ncclUint8, peer, seat(m).comm, queue(m).get()), "ncclRecv",
            seat(m).comm);
  }
  void gather(int m, const void* in, void* out, int64 bytes) {
    check(ncclAllGather(in, out, static_cast<std::size_t>(bytes), ncclUint8, seat(m).comm, queue(m).get()),
          "ncclAllGather", seat(m).comm);
  }

  void give(std::size_t place, const comm_call* calls) {
    const comm_call& first = calls[0];
    const int64 bytes = first.bytes();
    const auto count = static_cast<std::size_t>(first.count);
    const bool nothing = first.count == 0 && !first.is(comm_operation::all_to_allv);
    if (first.is(comm_operation::barrier))
      return each([&](int m) { each([&](int other) { queue(m).wait(*called_[spot(place, other)]); }); });
    if (nothing) return;
    if (folds(first)) return visit_dtype(first.type, [&]<class T>() { fold<T>(calls); });
    together([&](int m) {
      const comm_call& c = calls[m];
      ncclComm_t const comm = seat(m).comm;
      cudaStream_t const on = queue(m).get();
      switch (first.operation) {
        case comm_operation::all_reduce:
          return check(ncclAllReduce(c.in, c.out, count, nccl_type(c.type), nccl_reduction(c.how), comm, on),
                       "ncclAllReduce", comm);
        case comm_operation::reduce_scatter:
          return check(ncclReduceScatter(c.in, c.out, count, nccl_type(c.type), nccl_reduction(c.how), comm, on),
                       "ncclReduceScatter", comm);
        case comm_operation::all_gather:
        case comm_operation::split:
          return gather(m, c.in, c.out, bytes);
        case comm_operation::broadcast:
          return check(ncclBroadcast(c.in, c.out, count, ncclUint8, c.peer, comm, on), "ncclBroadcast", comm);
        case comm_operation::all_to_all:
          return each([&](int peer) {
            send(m, from(c.in, peer * bytes), bytes, peer);
            receive(m, to(c.out, peer * bytes), bytes, peer);
          });
        case comm_operation::all_to_allv: {
          int64 sent = 0, received = 0;
          return each([&](int peer) {
            send(m, from(c.in, sent), c.send_bytes[peer], peer);
            receive(m, to(c.out, received), c.recv_bytes[peer], peer);
            sent += c.send_bytes[peer], received += c.recv_bytes[peer];
          });
        }
        case comm_operation::send:
        case comm_operation::recv:
          return m == 0 ? send(0, c.in, bytes, rank(1)) : receive(1, c.out, bytes, rank(0));
        case comm_operation::barrier:
          return;
      }
    });
  }

  static bool is_float(dtype type) {
    return type == dtype::f64 || type == dtype::f32 || type == dtype::bf16 || type == dtype::f16;
  }
  bool folds(const comm_call& call) const {
    return size() > 1 && call.count > 0 && call.computes() && call.how != reduction::sum && is_float(call.type);
  }
  /// How many elements of each rank are folded at a time.
  template <class T>
  int64 piece(const comm_call& call) const {
    constexpr int64 width = sizeof(T);
    return std::min(call.count, std::max<int64>(fold_bytes / (size() * width) / pack_size<T> * pack_size<T>, 1));
  }
  /// The memory for that, which may wait for the GPUs.
  void reserve(const comm_call& call) {
    visit_dtype(call.type, [&]<class T>() {
      each([&](int m) {
        const scoped_device here(seat(m).gpu);
        queue(m).scratch(static_cast<std::size_t>(piece<T>(call) * size()) * sizeof(T));
      });
    });
  }
  /// In the order of ranks, on each GPU: a piece of every rank's part is brought there, then folded.
  template <class T>
  void fold(const comm_call* calls) {
    const int ranks = size();
    const int64 n = calls[0].count, width = sizeof(T), most = piece<T>(calls[0]);
    const bool scattered = calls[0].is(comm_operation::reduce_scatter);
    std::vector<std::byte*> parts;
    each([&](int m) { parts.push_back(static_cast<std::byte*>(queue(m).scratch(0))); });  // reserved
    for (int64 begin = 0; begin < n; begin += most) {
      const int64 count = std::min(most, n - begin), bytes = count * width;
      together([&](int m) {
        std::byte* const part = parts[static_cast<std::size_t>(m)];
        if (!scattered) return gather(m, from(calls[m].in, begin * width), part, bytes);
        each([&](int peer) {
          send(m, from(calls[m].in, (peer * n + begin) * width), bytes, peer);
          receive(m, part + peer * bytes, bytes, peer);
        });
      });
      each([&](int m) {
        const scoped_device here(seat(m).gpu);
        fold_kernel<T> kernel{count, ranks, 1, calls[0].how, false, true, {}, {}};
        kernel.out[0] = reinterpret_cast<T*>(to(calls[m].out, begin * width));
        for (int r = 0; r < ranks; ++r) {
          kernel.in[r] = reinterpret_cast<const T*>(parts[static_cast<std::size_t>(m)] + r * bytes);
          kernel.packed = kernel.packed && aligned_for_packs(kernel.in[r], kernel.out[0]);
        }
        over_elements<T>(queue(m), count, kernel);
      });
    }
  }

  nccl_job& job_;
  nccl_group& group_;
  std::vector<int> members_;
  std::vector<comm_call> calls_;                      // by place and member, as are these
  std::vector<std::optional<event>> called_, moved_;  // on the member's GPU
};

}  // namespace weft::gpu
