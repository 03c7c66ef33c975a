// One rank's call of one operation: what a communicator posts, and what ranks compare where they meet.
// Invariant: two calls that `agree` can be run together; every other pair is a mistake in the program.
#pragma once

#include <cstdint>
#include <string>

#include "weft/comm/label.hpp"
#include "weft/comm/queue_ref.hpp"
#include "weft/core/dtype.hpp"

namespace weft {

/// How all_reduce and reduce_scatter combine the ranks' values, element by element in rank order.
/// sum: 16-bit floats are summed in float and rounded once; integers wrap. max, min: a NaN on any rank gives NaN.
/// Sums of floats may be added and rounded in another way where reduces_in_rank_order is false.
enum class reduction : std::uint8_t { sum, max, min };

constexpr const char* name_of(reduction how) {
  return how == reduction::sum ? "sum" : how == reduction::max ? "max" : "min";
}

/// What ranks do together. A split is one too, for the ranks that compare what they call.
enum class comm_operation : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  all_to_allv,
  broadcast,
  send,
  recv,
  barrier,
  split
};

constexpr const char* name_of(comm_operation operation) {
  constexpr const char* names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_to_allv",
                                   "broadcast",  "send",       "recv",           "barrier",    "split"};
  return names[static_cast<int>(operation)];
}

/// A call of one operation on one rank, as comm_operations makes it: its sizes and peers are valid, and no buffer that
/// is read or written is null. Buffers and arrays live until the operation is complete.
struct comm_call {
  comm_operation operation = comm_operation::barrier;
  dtype type = dtype::u8;
  reduction how = reduction::sum;
  const void* in = nullptr;
  void* out = nullptr;
  /// Elements where the operation computes, else bytes: as in the operation's own signature. 0 for all_to_allv.
  std::int64_t count = 0;
  int peer = 0;                              // a broadcast's root; whom a send is to, whom a recv is from
  int tag = 0;                               // of a send or recv
  const std::int64_t* send_bytes = nullptr;  // of all_to_allv: for each rank
  const std::int64_t* recv_bytes = nullptr;  // from each rank
  collective_label label{};
  queue_ref queue{};              // behind which it is ordered; only where the communicator takes it
  mover_maker* movers = nullptr;  // who moves what lies on a device; null: the queue says it

  bool is(comm_operation which) const { return operation == which; }
  bool computes() const { return is(comm_operation::all_reduce) || is(comm_operation::reduce_scatter); }
  bool pairs() const { return is(comm_operation::send) || is(comm_operation::recv); }
  /// Bytes of what is counted.
  std::int64_t width() const { return computes() ? static_cast<std::int64_t>(size_of(type)) : 1; }
  std::int64_t bytes() const { return count * width(); }

  /// Bytes of its input and of its output, in a group of so many ranks; a broadcast has one buffer.
  std::int64_t input_bytes(int ranks) const {
    switch (operation) {
      case comm_operation::reduce_scatter:
      case comm_operation::all_to_all:
        return ranks * bytes();
      case comm_operation::all_to_allv:
        return sum(send_bytes, ranks);
      case comm_operation::recv:
        return 0;
      default:
        return bytes();
    }
  }
  std::int64_t output_bytes(int ranks) const {
    switch (operation) {
      case comm_operation::all_gather:
      case comm_operation::all_to_all:
        return ranks * bytes();
      case comm_operation::all_to_allv:
        return sum(recv_bytes, ranks);
      case comm_operation::send:
        return 0;
      default:
        return bytes();
    }
  }

 private:
  static std::int64_t sum(const std::int64_t* of, int ranks) {
    std::int64_t all = 0;
    for (int r = 0; r < ranks; ++r) all += of[r];
    return all;
  }
};

namespace detail {

/// Whether two ranks' calls can be one operation; a send goes with the recv that it meets. What all_to_allv has for
/// each rank is not compared.
WEFT_LINKED bool agree(const comm_call& a, const comm_call& b) {
  const bool pair = a.is(comm_operation::send) && b.is(comm_operation::recv);
  return (a.operation == b.operation || pair) && a.count == b.count && a.type == b.type && a.how == b.how &&
         (a.pairs() || a.peer == b.peer) && a.tag == b.tag && a.queue.moves_data() == b.queue.moves_data() &&
         a.label == b.label;
}

/// "all_reduce(96 fp32, sum)", "broadcast(64 bytes, root 1)"
[[gnu::cold]] WEFT_LINKED std::string describe_operation(const comm_call& call) {
  const char* const name = name_of(call.operation);
  switch (call.operation) {
    case comm_operation::barrier:
    case comm_operation::split:
      return text(name, "()");
    case comm_operation::all_to_allv:
      return text(name, "(sizes for each rank)");
    case comm_operation::broadcast:
      return text(name, "(", call.count, " bytes, root ", call.peer, ")");
    default:
      break;
  }
  if (call.computes()) return text(name, "(", call.count, " ", name_of(call.type), ", ", name_of(call.how), ")");
  return call.tag != 0 ? text(name, "(", call.count, " bytes, tag ", call.tag, ")")
                       : text(name, "(", call.count, " bytes)");
}
/// " for weights of layer 3", " for [batch, hidden] (model.cpp:34)" where the operation that asks is the call's own;
/// empty where nothing was said.
[[gnu::cold, gnu::noinline]] inline std::string purpose_of(const comm_call& call) {
  std::string purpose = text_of(call.label);
  const std::string_view own = name_of(call.operation), of = " of ";
  if (call.label.kind == label_kind::numbers && own == call.label.what) {
    purpose.erase(0, own.size());
    if (!purpose.starts_with(of)) return purpose;
    purpose.erase(0, of.size());
  }
  return purpose.empty() ? purpose : " for " + purpose;
}
/// Both: "all_gather(64 bytes) for weights of layer 3".
[[gnu::cold, gnu::noinline]] inline std::string describe(const comm_call& call) {
  return describe_operation(call) + (call.queue.moves_data() ? " of a device's memory" : "") + purpose_of(call);
}

}  // namespace detail

}  // namespace weft
