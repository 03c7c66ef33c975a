// What a rank's kernels are given to: its queue. Invariant: all that one queue is given runs in the order in which it
// was given, whatever runs it.
#pragma once

#include <weft/core/requirements.hpp>

#include <concepts>

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

}  // namespace weft
