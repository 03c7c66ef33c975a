// A decorator that compares what ranks call before anything moves, over any communicator.
// Invariant: C is asked for nothing on which its ranks disagree; what moves, in which order and in which bits, is as
// under C.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "weft/comm/concept.hpp"
#include "weft/comm/detail/call_checker.hpp"

namespace weft {

/// How long a rank may show no sign while others wait for it, before it is taken to be stuck.
struct check_limits {
  static constexpr std::chrono::milliseconds stuck{600'000};
};

/// C, whose ranks tell each other what they call before they call it. An operation is compared with what all its ranks
/// say of it (operation, type, count, tag, order, sizes of an all_to_allv, a split's name, label and line), and posted
/// to C when they agree. All ranks end, with one sentence that names ranks, operations and lines, where they disagree,
/// where ranks wait for each other in a ring, where a rank has returned, or shows no sign for Limits::stuck, and others
/// wait for its call. Where a rank throws, the others end as under C. Numbers are those of C.
///
/// Groups take a message from each of their ranks to each for every operation, and an operation begins when those have
/// come, at this rank's next call, wait or test: for finding faults, not for speed.
template <communicator_policy C, class Limits = check_limits>
class checked : public comm_operations<checked<C, Limits>> {
 public:
  static constexpr bool reduces_in_rank_order = weft::reduces_in_rank_order<C>;
  static constexpr bool joins_graphs = weft::joins_graphs<C>;

  int rank() const { return group_->comm.rank(); }
  int size() const { return group_->comm.size(); }

  /// As C.
  bool takes_queue(const queue_ref& queue) const { return group_->comm.takes_queue(queue); }

  request post(const comm_call& call) { return checker_->post(*group_, call); }
  checked split(int color, int key, const char* name) {
    return checked(checker_, checker_->split(*group_, color, key, name));
  }

  /// As C::launch.
  template <class F>
  static void launch(int ranks, F&& f) {
    static_assert(
        requires { std::chrono::milliseconds(Limits::stuck); },
        "weft: checked<C, Limits> asks Limits how long a rank may show no sign: static constexpr "
        "std::chrono::milliseconds stuck{600'000}");
    static_assert(
        !requires(C & c) { c.host(); },
        "weft: checked<C> sends messages of its own, in the host's memory: it takes no communicator that has another "
        "for it, host()");
    C::launch(ranks, [&](C& inner) {
      auto checker = std::make_shared<detail::call_checker>(inner, Limits::stuck);
      try {
        checked world(checker, checker->world());
        f(world);
      } catch (...) {
        checker->close_with_error();
      }
      checker->close();
    });
  }

 private:
  checked(std::shared_ptr<detail::call_checker> checker, detail::checked_group& group)
      : checker_(std::move(checker)), group_(&group) {}

  std::shared_ptr<detail::call_checker> checker_;  // of this rank, for all its groups
  detail::checked_group* group_;
};

}  // namespace weft
