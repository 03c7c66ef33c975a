// The communicator concept: how the ranks of one group meet.
// Invariant: everything that moves between ranks goes through the operations named here.
#pragma once

#include <concepts>
#include <cstdint>

#include "weft/comm/operations.hpp"
#include "weft/core/refusal.hpp"

namespace weft {

/// A communicator: the ranks of one group, seen from one of them. It is a cheap handle: copies mean the same group. A
/// class of your own derives from comm_operations<itself>, which gives it the operations below, and has rank(), size(),
/// post(call) for all of them, and split.
///
/// Every operation is asynchronous: it returns a `request`, and `.wait()` on the spot is the blocking form. Buffers
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
///     all_to_allv(in, send_bytes, out, recv_bytes)  the same with a size for each peer
///     broadcast(buffer, bytes, root)             every rank's buffer becomes root's
///     send(in, bytes, to, tag), recv(out, bytes, from, tag)  matched in order for each pair of ranks and tag, a number
///                                                of 0 to 32767; at least 16 sends of each may be outstanding
///     barrier()                                  completes once every rank has called it
///     split(color, key, name)                    blocking; the ranks of equal color, ordered by (key, rank); the name
///                                                is the new group's in errors and traces ("tp")
///
/// Buffers that overlap in other ways than those allowed are an error of the caller.
///
/// Where kernels run behind the host, operations are ordered behind a rank's queue (any_communicator::behind): they
/// begin when the kernels that were given before have run, and `wait(queue)` lets the queue go on after them without
/// blocking the host. A communicator that moves a device's memory has `bool takes_queue(const queue_ref&) const`; where
/// that says yes, it finds the queue in `call.queue`, with an empty one for what lies in the host's memory. One that
/// can't move that has `host()`: a communicator of the same ranks for small messages there.
template <class C>
concept communicator = std::copy_constructible<C> && std::derived_from<C, comm_operations<C>> &&
    requires(C c, const C& shared, const comm_call& call, int n, const char* name) {
  { shared.rank() } -> std::same_as<int>;
  { shared.size() } -> std::same_as<int>;
  { c.post(call) } -> std::same_as<request>;
  { c.split(n, n, name) } -> std::same_as<C>;
};

/// The communicator policy: a communicator that also starts its ranks. `C::launch(ranks, f)` runs `f(C& world)` on
/// every rank and returns when all are done. A rank that throws ends all ranks; its error is rethrown to the caller,
/// once. With launch_options.check a strategy's communicator that has `C::launch_checked(ranks, f)` is launched by
/// that: one over which ranks that call different things would hang has it call checked<C>::launch (comm/checked.hpp),
/// and one that wraps another hands that on.
template <class C>
concept communicator_policy = communicator<C> && requires(void (*f)(C&)) {
  C::launch(1, f);
};

/// Whether C adds floats in the order of ranks, those of 16 bits in float and rounded once. So it has to, unless it
/// says `static constexpr bool reduces_in_rank_order = false`: then it adds in an order of its own. An all_reduce has
/// to give every rank the same bits in either case, by promise or by how it works (docs/policies/communicator.md).
template <class C>
inline constexpr bool reduces_in_rank_order = [] {
  if constexpr (requires { C::reduces_in_rank_order; }) {
    static_assert(std::is_same_v<decltype(C::reduces_in_rank_order), const bool>,
                  "weft: a communicator's reduces_in_rank_order is a static constant: write static constexpr bool "
                  "reduces_in_rank_order = false;");
    return bool(C::reduces_in_rank_order);
  }
  return true;
}();

/// Whether C's operations behind a queue that keeps back a graph (graph_queue) become part of that graph. A C that can
/// do so says `static constexpr bool joins_graphs = true`; then training.step_graph is there for several ranks.
template <class C>
inline constexpr bool joins_graphs = [] {
  if constexpr (requires { C::joins_graphs; }) {
    static_assert(
        std::is_same_v<decltype(C::joins_graphs), const bool>,
        "weft: a communicator's joins_graphs is a static constant: write static constexpr bool joins_graphs = true;");
    return bool(C::joins_graphs);
  }
  return false;
}();

/// This communicator, beside the sentence that says what it lacks.
template <class... C>
struct in_communicator {};

namespace detail {

struct any_rank_function {
  template <class C>
  void operator()(C&) const {}
};
/// Whether C has a launch that compares its ranks' calls, which one that wraps it then has too.
template <class C>
concept launches_checked = requires(any_rank_function f) {
  C::launch_checked(1, f);
};

/// Whether c orders its operations behind the queue that a call names.
template <class C>
bool takes_queue(const C& c, const queue_ref& queue) {
  if constexpr (requires { c.takes_queue(queue); }) {
    return c.takes_queue(queue);
  } else {
    constexpr bool is_constant = requires { bool(C::takes_queue); };
    static_assert(!is_constant,
                  "weft: a communicator's takes_queue is a function: bool takes_queue(const queue_ref&) const");
    return false;
  }
}

template <bool Has, class C>
using lacking = std::conditional_t<Has, in_communicator<>, in_communicator<C>>;

// One member: its name, its declaration for the sentence, and a call of it that gives back `result`. The answer has a
// name, since nvcc takes no requires-expression for a template's argument.
#define WEFT_DETAIL_ASK(member, declaration, result, ...)                                                        \
  constexpr bool has_##member = requires(C c, const C& shared, const comm_call& call, int n, const char* name) { \
    { __VA_ARGS__ } -> std::same_as<result>;                                                                     \
  };                                                                                                             \
  static_assert(none<lacking<has_##member, C>>,                                                                  \
                "weft: a strategy's communicator lacks " declaration "; comm/concept.hpp says what it does")

/// Whether C is a communicator policy; where it isn't, a sentence is said for each member that it lacks.
template <class C>
constexpr bool check_communicator() {
  if constexpr (!communicator_policy<C>) {
    constexpr bool launches = requires(void (*f)(C&)) { C::launch(1, f); };
    static_assert(none<lacking<launches, C>>,
                  "weft: a strategy's communicator lacks template <class F> static void launch(int ranks, F&& f); "
                  "comm/concept.hpp says what it does");
    static_assert(
        none<lacking<std::copy_constructible<C>, C>>,
        "weft: a strategy's communicator can't be copied: it is a handle to a group of ranks, and copies mean "
        "the same group; keep what they share in a std::shared_ptr");
    static_assert(none<lacking<std::derived_from<C, comm_operations<C>>, C>>,
                  "weft: a strategy's communicator derives from comm_operations<itself>, publicly: class mine : public "
                  "comm_operations<mine>; its operations are calls of request post(const comm_call&)");
    WEFT_DETAIL_ASK(rank, "int rank() const", int, shared.rank());
    WEFT_DETAIL_ASK(size, "int size() const", int, shared.size());
    WEFT_DETAIL_ASK(post, "request post(const comm_call&)", request, c.post(call));
    WEFT_DETAIL_ASK(split, "its own split(int color, int key, const char* name)", C, c.split(n, n, name));
  }
  return communicator_policy<C>;
}
#undef WEFT_DETAIL_ASK

}  // namespace detail

}  // namespace weft
