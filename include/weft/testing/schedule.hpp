// The law of a schedule: for every number of ranks and micro-batches, each micro-batch goes forward and back once in
// every chunk, and no rank waits for ever. And when each rank would do what, given how long it takes. Invariant:
// nothing is computed; the order alone is followed.
#pragma once

#include <weft/policy/check_schedule.hpp>

namespace weft::testing {

/// Throws weft::failure, with what is wrong, unless the schedule is sound for all of 1 ... stages ranks and 1 ...
/// micro_batches that it takes. (sound_schedule<P, ranks, micro_batches> asks for one pair, while compiling.)
///
///   testing::check_schedule<gpipe>();
template <schedule_policy P>
void check_schedule(int stages = 9, int micro_batches = 20) {
  require(stages >= 1 && micro_batches >= 1, "check_schedule was given ", stages, " stages and ", micro_batches,
          " micro-batches, and tries 1 up to each: give it at least 1 of both");
  for (int s = 1; s <= stages; ++s)
    for (int m = 1; m <= micro_batches; ++m)
      if (weft::detail::asked_by<P>(s, m).empty()) weft::detail::check_schedule<P>(s, m);
}

/// How long one micro-batch takes through all of a rank's layers. `saved`: by how much a forward and a backward that go
/// together take less than one after the other.
struct schedule_costs {
  double forward = 1, inputs = 1, weights = 1, saved = 0;

  double of(pipeline_action::kind what) const {
    if (what == pipeline_action::kind::forward) return forward;
    return (stage_progress::has_inputs(what) ? inputs : 0) + (stage_progress::has_weights(what) ? weights : 0);
  }
};
/// When a rank does something.
struct timed_action {
  pipeline_action action;
  double begin = 0, end = 0;
};

/// What each rank does when, where each goes on as soon as what it waits for is there, sending takes no time, and a
/// chunk takes its part of `costs`. Throws weft::failure where the schedule is not sound.
template <schedule_policy P>
std::vector<std::vector<timed_action>> schedule_timeline(int ranks, int micro_batches,
                                                         const schedule_costs& costs = {}) {
  const auto n = static_cast<std::size_t>(ranks), m = static_cast<std::size_t>(micro_batches);
  const int stages = ranks * chunks_of<P>;
  struct passed {
    double forward = 0, back = 0;
  };
  std::vector<std::vector<passed>> at(static_cast<std::size_t>(stages), std::vector<passed>(m));
  std::vector<std::vector<timed_action>> out(n);
  weft::detail::check_schedule<P>(ranks, micro_batches, [&](int rank, pipeline_action a) {
    std::vector<timed_action>& own = out[static_cast<std::size_t>(rank)];
    const auto v = static_cast<std::size_t>(weft::detail::virtual_stage<P>(rank, ranks, a.chunk));
    const auto b = static_cast<std::size_t>(a.micro_batch);
    const bool forward = a.what == pipeline_action::kind::forward, back = stage_progress::has_inputs(a.what);
    double begin = own.empty() ? 0 : own.back().end;
    if (forward && v > 0) begin = std::max(begin, at[v - 1][b].forward);
    if (back && v + 1 < at.size()) begin = std::max(begin, at[v + 1][b].back);
    double end = begin + costs.of(a.what) / chunks_of<P>;
    if (back && !own.empty() && own.back().action.with_next) {  // which waits for what both wait for
      timed_action& with = own.back();
      const double later = begin - with.end;
      with.begin += later, with.end += later;
      const pipeline_action f = with.action;
      at[static_cast<std::size_t>(weft::detail::virtual_stage<P>(rank, ranks, f.chunk))]
        [static_cast<std::size_t>(f.micro_batch)]
            .forward = with.end;
      end -= costs.saved / chunks_of<P>;
    }
    own.push_back({a, begin, end});
    if (forward) at[v][b].forward = end;
    if (back) at[v][b].back = end;
  });
  return out;
}

/// The most that a rank waits between the begin of its first action and the end of its last.
inline double idle_of(const std::vector<std::vector<timed_action>>& timeline) {
  double most = 0;
  for (const std::vector<timed_action>& rank : timeline) {
    if (rank.empty()) continue;
    double idle = rank.back().end - rank.front().begin;
    for (const timed_action& a : rank) idle -= a.end - a.begin;
    most = std::max(most, idle);
  }
  return most;
}

}  // namespace weft::testing
