// The communicator concept: how the ranks of one group meet.
// Invariant: everything that moves between ranks goes through the operations named here.
#pragma once

#include <concepts>
#include <cstdint>

#include "weft/comm/label.hpp"
#include "weft/comm/request.hpp"
#include "weft/core/dtype.hpp"
#include "weft/core/refusal.hpp"

namespace weft {

/// How all_reduce and reduce_scatter combine the ranks' values, element by element in rank order.
/// sum: 16-bit floats are summed in float and rounded once; integers wrap. max, min: a NaN on any rank gives NaN.
enum class reduction : std::uint8_t { sum, max, min };

constexpr const char* name_of(reduction how) {
  return how == reduction::sum ? "sum" : how == reduction::max ? "max" : "min";
}

/// A communicator: the ranks of one group, seen from one of them. It is a cheap handle: copies mean the same group.
///
/// Every collective is asynchronous: it returns a `request`, and `.wait()` on the spot is the blocking form. Buffers
/// must live and outputs stay unread until wait() returns; afterwards every buffer may be reused. All ranks of a group
/// call the same collectives in the same order; requests may be waited for in any order. One thread at a time uses a
/// rank.
///
/// Every operation but split takes one argument more, the last: a `collective_label`, what it is for; `= {}` by
/// default. What the label names lives as long as the buffers. Where a communicator can, it compares the ranks' labels.
///
///     all_reduce(in, out, count, type, how)      in, out: count elements; in == out allowed
///     all_gather(in, out, bytes)                 out: size()*bytes in rank order; in may be out + rank()*bytes
///     reduce_scatter(in, out, count, type, how)  in: size()*count elements; out: count; out may be in + rank()*count
///     all_to_all(in, out, bytes)                 in, out: size()*bytes, `bytes` for each peer; no overlap
///     broadcast(buffer, bytes, root)             every rank's buffer becomes root's
///     send(in, bytes, to), recv(out, bytes, from)  matched in order for each pair of ranks
///     barrier()                                  completes once every rank has called it
///     split(color, key, name)                    blocking; the ranks of equal color, ordered by (key, rank); the name
///                                                is the new group's in errors and traces ("tp")
///
/// Buffers that overlap in other ways than those allowed are an error of the caller.
template <class C>
concept communicator = requires(C c, const C& shared, const void* in, void* out, std::int64_t count, dtype type,
                                reduction how, int peer, const char* name, const collective_label& label) {
  { shared.rank() } -> std::same_as<int>;
  { shared.size() } -> std::same_as<int>;
  { c.all_reduce(in, out, count, type, how, label) } -> std::same_as<request>;
  { c.all_gather(in, out, count, label) } -> std::same_as<request>;
  { c.reduce_scatter(in, out, count, type, how, label) } -> std::same_as<request>;
  { c.all_to_all(in, out, count, label) } -> std::same_as<request>;
  { c.broadcast(out, count, peer, label) } -> std::same_as<request>;
  { c.send(in, count, peer, label) } -> std::same_as<request>;
  { c.recv(out, count, peer, label) } -> std::same_as<request>;
  { c.barrier(label) } -> std::same_as<request>;
  { c.split(peer, peer, name) } -> std::same_as<C>;
};

/// The communicator policy: a communicator that also starts its ranks. `C::launch(ranks, f)` runs `f(C& world)` on
/// every rank and returns when all are done. A rank that throws ends all ranks; its error is rethrown to the caller,
/// once.
template <class C>
concept communicator_policy = communicator<C> && requires(void (*f)(C&)) {
  C::launch(1, f);
};

/// This communicator, beside the sentence that says what it lacks.
template <class... C>
struct in_communicator {};

namespace detail {

template <bool Has, class C>
using lacking = std::conditional_t<Has, in_communicator<>, in_communicator<C>>;

// One member: its name, its declaration for the sentence, and a call of it that gives back `result`. The answer has a
// name, since nvcc takes no requires-expression for a template's argument.
#define WEFT_DETAIL_ASK(member, declaration, result, ...)                                                      \
  constexpr bool has_##member =                                                                                \
      requires(C c, const C& shared, const void* in, void* out, std::int64_t count, dtype type, reduction how, \
               int peer, const char* name, const collective_label& label) {                                    \
    { __VA_ARGS__ } -> std::same_as<result>;                                                                   \
  };                                                                                                           \
  static_assert(none<lacking<has_##member, C>>,                                                                \
                "weft: a strategy's communicator lacks " declaration "; comm/concept.hpp says what it does")

/// True; where C is no communicator policy, a sentence is said for each member that it lacks.
template <class C>
constexpr bool check_communicator() {
  if constexpr (!communicator_policy<C>) {
    constexpr bool launches = requires(void (*f)(C&)) { C::launch(1, f); };
    static_assert(none<lacking<launches, C>>,
                  "weft: a strategy's communicator lacks template <class F> static void launch(int ranks, F&& f); "
                  "comm/concept.hpp says what it does");
    WEFT_DETAIL_ASK(rank, "int rank() const", int, shared.rank());
    WEFT_DETAIL_ASK(size, "int size() const", int, shared.size());
    WEFT_DETAIL_ASK(all_reduce,
                    "request all_reduce(const void* in, void* out, std::int64_t count, dtype, reduction, const "
                    "collective_label& = {})",
                    request, c.all_reduce(in, out, count, type, how, label));
    WEFT_DETAIL_ASK(all_gather,
                    "request all_gather(const void* in, void* out, std::int64_t bytes, const collective_label& = {})",
                    request, c.all_gather(in, out, count, label));
    WEFT_DETAIL_ASK(reduce_scatter,
                    "request reduce_scatter(const void* in, void* out, std::int64_t count, dtype, reduction, const "
                    "collective_label& = {})",
                    request, c.reduce_scatter(in, out, count, type, how, label));
    WEFT_DETAIL_ASK(all_to_all,
                    "request all_to_all(const void* in, void* out, std::int64_t bytes, const collective_label& = {})",
                    request, c.all_to_all(in, out, count, label));
    WEFT_DETAIL_ASK(broadcast,
                    "request broadcast(void* buffer, std::int64_t bytes, int root, const collective_label& = {})",
                    request, c.broadcast(out, count, peer, label));
    WEFT_DETAIL_ASK(send, "request send(const void* in, std::int64_t bytes, int to, const collective_label& = {})",
                    request, c.send(in, count, peer, label));
    WEFT_DETAIL_ASK(recv, "request recv(void* out, std::int64_t bytes, int from, const collective_label& = {})",
                    request, c.recv(out, count, peer, label));
    WEFT_DETAIL_ASK(barrier, "request barrier(const collective_label& = {})", request, c.barrier(label));
    WEFT_DETAIL_ASK(split, "its own split(int color, int key, const char* name)", C, c.split(peer, peer, name));
  }
  return true;
}
#undef WEFT_DETAIL_ASK

}  // namespace detail

}  // namespace weft
