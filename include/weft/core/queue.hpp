// What a rank's kernels are given to: its queue. Invariant: all that one queue is given runs in the order in which it
// was given, whatever runs it.
#pragma once

#include <weft/core/requirements.hpp>

#include <concepts>
#include <cstdint>

namespace weft {

/// A backend's queue. `runs_behind`: whether kernels may still be to come when the call that gave them has returned, as
/// on a device; false: each has run by then. `enqueue(f)` calls f() on the host once all that was given before has run,
/// and before anything that is given later begins. `synchronize()` returns when all that was given has run. Where
/// something of it failed, what was given after that isn't run, and `synchronize()` throws the failure. A queue
/// that ends runs nothing any more when its destructor returns. It belongs to one rank, and is given work from its
/// thread only.
template <class Q>
concept ordered_queue = requires(Q& q, void (*f)()) {
  { Q::runs_behind } -> std::convertible_to<bool>;
  q.enqueue(f);
  q.synchronize();
};

/// One whose host can ask for a few numbers and wait for them later, while it gives more: `landing l(q, bytes)` for as
/// long as the queue is there, `l.fetch(from)` gives q the copy of what lies at `from` by then, and `l.wait()` returns
/// where it is on the host, once it is there: valid until the next fetch. It waits for nothing that was given behind
/// that, and throws what failed before it. The end of a landing is the end of its copies.
template <class Q>
concept landing_queue = ordered_queue<Q> && requires(Q& q, typename Q::landing& l, const void* from) {
  typename Q::landing;
  l.fetch(from);
  { l.wait() } -> std::convertible_to<const void*>;
};

/// What became of the graphs of a queue that has them.
struct graph_counts {
  std::int64_t launches = 0;        // given to the device, each as one
  std::int64_t instantiations = 0;  // of executable graphs: more than one where steps differ in what they give
  std::int64_t flushes = 0;         // of those launches, such as came early since somebody waited
};

/// One that can keep back what it is given, and hand it to its device as one graph: from `begin_graph()` to
/// `launch_graph()`, which waits for nothing. Where somebody waits for something of it
/// meanwhile, what there is is launched, and what follows goes one by one, as without a graph.
template <class Q>
concept graph_queue = ordered_queue<Q> && requires(Q& q) {
  q.begin_graph();
  q.launch_graph();
  { q.graphs() } -> std::convertible_to<graph_counts>;
};

}  // namespace weft
