// The law of a schedule: for every number of stages and micro-batches, each micro-batch goes forward and back once on
// every stage, and no stage waits for ever. Invariant: nothing is computed; the order alone is followed.
#pragma once

#include <vector>

#include <weft/policy/schedule.hpp>

namespace weft::testing {

/// Throws weft::failure, with what is wrong, unless the schedule is sound for all of 1 ... stages and 1 ...
/// micro_batches. (sound_schedule<P, stages, micro_batches> asks for one pair, while compiling.)
///
///   testing::check_schedule<gpipe>();
template <schedule_policy P>
void check_schedule(int stages = 9, int micro_batches = 20) {
  for (int s = 1; s <= stages; ++s)
    for (int m = 1; m <= micro_batches; ++m) {
      const auto n = static_cast<std::size_t>(s);
      std::vector<pipeline_action> list(n * 3 * static_cast<std::size_t>(m));
      std::vector<int> length(n), next(n);
      std::vector<stage_progress> done(n);
      if (const schedule_fault f = weft::detail::follow<P>(s, m, list.data(), length.data(), next.data(), done.data()))
        weft::detail::fail_of_schedule(P::name, f, s, m);
    }
}

}  // namespace weft::testing
