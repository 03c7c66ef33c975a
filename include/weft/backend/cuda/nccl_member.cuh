// One rank's part of an operation, as calls of NCCL's on the stream of its seat. Invariant: what NCCL gives a rank but
// `communicator` doesn't allow, maxima and minima of floats without their NaN, is folded here instead.
#pragma once

#include <algorithm>
#include <optional>

#include <weft/backend/cuda/kernels/fold.hpp>
#include <weft/backend/cuda/nccl_group.cuh>

namespace weft::gpu {

/// Sums are NCCL's, in an order and with roundings of its own. Its maxima and minima of floats lose a NaN, so these are
/// folded here, from the parts of all ranks, which take up to `fold_bytes` of memory on each GPU.
class nccl_member {
 public:
  static constexpr int64 fold_bytes = int64{32} << 20;

  /// In a communicator of so many ranks. `parts`: what reserve() gave for what is folded; null: what it would give.
  nccl_member(nccl_seat& seat, int ranks, void* parts = nullptr) : seat_(seat), ranks_(ranks), parts_(parts) {}

  /// Every operation of a group of one, and what a rank sends itself.
  void copy_alone(const comm_call& in, const comm_call& out) const {
    const int64 bytes = in.is(comm_operation::all_to_allv) ? in.send_bytes[0] : in.bytes();
    const scoped_device here(seat_.gpu);
    if (bytes > 0 && in.in != out.out) queue().copy(in.in, out.out, static_cast<std::size_t>(bytes));
  }

  /// Whether an array of a call lies in registered memory (nccl_memory.cuh); nothing: the rank has no such array.
  struct arrays {
    std::optional<bool> in, out;
  };
  /// Registers what isn't yet of the memory in which NCCL reads and writes for a call, before its group call.
  arrays enroll(const comm_call& c) const {
    const auto one = [&](const void* at, int64 bytes) {
      return bytes > 0 ? std::optional(seat_.registered.add(seat_.comm, at)) : std::nullopt;
    };
    if (folds(c, ranks_)) return {one(c.in, c.input_bytes(ranks_)), one(parts(c), 1)};
    return {one(c.in, c.input_bytes(ranks_)), one(c.out, c.output_bytes(ranks_))};
  }

  /// What isn't folded here, within a group call; `peer`: whom a send is to, whom a recv is from.
  void give(const comm_call& c, int peer) const {
    const int64 bytes = c.bytes();
    const auto count = static_cast<std::size_t>(c.count);
    ncclComm_t const comm = seat_.comm;
    cudaStream_t const on = queue().get();
    switch (c.operation) {
      case comm_operation::all_reduce:
        return check(ncclAllReduce(c.in, c.out, count, nccl_type(c.type), nccl_reduction(c.how), comm, on),
                     "ncclAllReduce", comm);
      case comm_operation::reduce_scatter:
        return check(ncclReduceScatter(c.in, c.out, count, nccl_type(c.type), nccl_reduction(c.how), comm, on),
                     "ncclReduceScatter", comm);
      case comm_operation::all_gather:
      case comm_operation::split:
        return gather(c.in, c.out, bytes);
      case comm_operation::broadcast:
        return check(ncclBroadcast(c.in, c.out, count, ncclUint8, c.peer, comm, on), "ncclBroadcast", comm);
      case comm_operation::all_to_all:
        for (int r = 0; r < ranks_; ++r) {
          send(from(c.in, r * bytes), bytes, r);
          receive(to(c.out, r * bytes), bytes, r);
        }
        return;
      case comm_operation::all_to_allv: {
        int64 sent = 0, received = 0;
        for (int r = 0; r < ranks_; ++r) {
          send(from(c.in, sent), c.send_bytes[r], r);
          receive(to(c.out, received), c.recv_bytes[r], r);
          sent += c.send_bytes[r], received += c.recv_bytes[r];
        }
        return;
      }
      case comm_operation::send:
        return send(c.in, bytes, peer);
      case comm_operation::recv:
        return receive(c.out, bytes, peer);
      case comm_operation::barrier:
        return;
    }
  }

  // ---- what is folded here, a piece of every rank's part at a time: it is brought, then folded in the ranks' order
  // ----

  static bool folds(const comm_call& call, int ranks) {
    return ranks > 1 && call.count > 0 && call.computes() && call.how != reduction::sum && is_float(call.type);
  }
  /// How many elements of each rank.
  static int64 piece(const comm_call& call, int ranks) {
    const auto width = static_cast<int64>(size_of(call.type));
    constexpr int64 packs = 16;  // elements of the widest pack
    return std::min(call.count, std::max<int64>(fold_bytes / (ranks * width) / packs * packs, 1));
  }
  static std::size_t part_bytes(const comm_call& call, int ranks) {
    return static_cast<std::size_t>(piece(call, ranks) * ranks) * size_of(call.type);
  }
  /// Memory for that, registered where the call's input is: what a rank sends goes there on another.
  void* reserve(const comm_call& call) const {
    return seat_.scratch.at_least(part_bytes(call, ranks_), seat_.gpu,
                                  nccl_memory::of_process().find(call.in).first != nullptr);
  }
  /// Elements [begin, begin + count), within a group call.
  void bring(const comm_call& call, int64 begin, int64 count) const {
    const auto width = static_cast<int64>(size_of(call.type));
    const int64 bytes = count * width;
    std::byte* const part = parts(call);
    if (!call.is(comm_operation::reduce_scatter)) return gather(from(call.in, begin * width), part, bytes);
    for (int r = 0; r < ranks_; ++r) {
      send(from(call.in, (r * call.count + begin) * width), bytes, r);
      receive(part + r * bytes, bytes, r);
    }
  }
  void fold(const comm_call& call, int64 begin, int64 count) const {
    visit_dtype(call.type, [&]<class T>() {
      constexpr int64 width = sizeof(T);
      const scoped_device here(seat_.gpu);
      std::byte* const part = parts(call);
      fold_kernel<T> kernel{count, ranks_, 1, call.how, false, true, {}, {}};
      kernel.out[0] = reinterpret_cast<T*>(to(call.out, begin * width));
      for (int r = 0; r < ranks_; ++r) {
        kernel.in[r] = reinterpret_cast<const T*>(part + r * count * width);
        kernel.packed = kernel.packed && aligned_for_packs(kernel.in[r], kernel.out[0]);
      }
      over_elements<T>(queue(), count, kernel);
    });
  }

 private:
  static bool is_float(dtype type) {
    return type == dtype::f64 || type == dtype::f32 || type == dtype::bf16 || type == dtype::f16;
  }
  static const std::byte* from(const void* first, int64 at) { return static_cast<const std::byte*>(first) + at; }
  static std::byte* to(void* first, int64 at) { return static_cast<std::byte*>(first) + at; }
  stream& queue() const { return *seat_.queue; }
  std::byte* parts(const comm_call& call) const {
    return static_cast<std::byte*>(parts_ ? parts_ : reserve(call));  // it was reserved
  }
  void send(const void* data, int64 bytes, int peer) const {
    if (bytes > 0)
      check(ncclSend(data, static_cast<std::size_t>(bytes), ncclUint8, peer, seat_.comm, queue().get()), "ncclSend",
            seat_.comm);
  }
  void receive(void* data, int64 bytes, int peer) const {
    if (bytes > 0)
      check(ncclRecv(data, static_cast<std::size_t>(bytes), ncclUint8, peer, seat_.comm, queue().get()), "ncclRecv",
            seat_.comm);
  }
  void gather(const void* in, void* out, int64 bytes) const {
    check(ncclAllGather(in, out, static_cast<std::size_t>(bytes), ncclUint8, seat_.comm, queue().get()),
          "ncclAllGather", seat_.comm);
  }

  nccl_seat& seat_;
  const int ranks_;
  void* const parts_;
};

}  // namespace weft::gpu
