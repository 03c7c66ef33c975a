// What is wrong with a schedule, in a sentence, for sizes that are known when the program runs; and what each rank
// holds under it. Invariant: all ranks find the same, so a step that is refused has begun on none.
#pragma once

#include <algorithm>
#include <vector>

#include <weft/policy/follow_schedule.hpp>

namespace weft {

/// What a rank holds at most under a schedule. A micro-batch is in flight in a chunk from its forward to the end of its
/// backward; activations are counted in those of one micro-batch through all of the rank's layers.
struct schedule_load {
  int in_flight = 0;
  double activations = 0;
};

/// The load of one of `ranks` ranks in a step, by the order alone. `left`: what the first part of a backward in two
/// leaves for the second, as a part of what a forward keeps.
template <schedule_policy P>
constexpr schedule_load load_of(int rank, int ranks, int micro_batches, double left = 1) {
  schedule_load most, now;
  P::order(rank, ranks, micro_batches, [&](pipeline_action a) {
    using enum pipeline_action::kind;
    if (a.what == forward) ++now.in_flight, now.activations += 1;
    most.in_flight = std::max(most.in_flight, now.in_flight);
    most.activations = std::max(most.activations, now.activations);
    if (a.what == backward || a.what == backward_weights) --now.in_flight;
    if (a.what == backward) now.activations -= 1;
    if (a.what == backward_inputs) now.activations -= 1 - left;
    if (a.what == backward_weights) now.activations -= left;
    most.activations = std::max(most.activations, now.activations);
  });
  most.activations /= chunks_of<P>;
  return most;
}

namespace detail {

/// Throws weft::failure, with what is wrong in a sentence.
[[noreturn, gnu::cold]] WEFT_LINKED void fail_of_schedule(std::string_view name, const schedule_fault& f, int ranks,
                                                          int micro_batches, int chunks = 1,
                                                          std::string_view asks = {}) {
  using fault = schedule_fault::kind;
  require(f.what != fault::refused, "the schedule ", name, " asks for ", asks, ", and this step has ", micro_batches,
          " on ", ranks, " ranks; choose another number of micro-batches, or another schedule");
  require(f.what != fault::misplaced, "the schedule ", name, " says that chunk ", f.action.chunk, " of rank ", f.stage,
          " is virtual stage ", f.action.micro_batch, " of ", ranks * chunks,
          ": its stage_of has to give each of 0 to ", ranks * chunks - 1, " to one chunk of one rank");
  require(f.what != fault::crowded, "the schedule ", name, " has more than ", schedule_room{}.activations,
          " micro-batches under way between two virtual stages before chunk ", f.action.chunk, " of rank ", f.stage,
          " takes micro-batch ", f.action.micro_batch, ", in a step of ", micro_batches, " on ", ranks,
          " ranks, and a communicator takes no more: let it receive them earlier, or take fewer micro-batches");
  constexpr const char *does[] = {"", " leaves out ", " emits ", " emits ", " emits ", " waits for ever before "},
                       *actions[] = {"forward", "backward", "backward_inputs", "backward_weights",
                                     "an action of no pipeline_action::kind"};
  const char* const when = f.what == fault::not_due                                   ? " out of turn"
                           : f.what == fault::alone                                   ? " with_next"
                           : f.what != fault::early                                   ? ""
                           : f.action.what == pipeline_action::kind::backward_weights ? " before its backward_inputs"
                                                                                      : " before its forward";
  const bool one = chunks == 1 && f.action.chunk == 0;
  fail(
      "the schedule ", name, does[static_cast<int>(f.what)], actions[std::min(static_cast<int>(f.action.what), 4)],
      " of micro-batch ", f.action.micro_batch, one ? "" : text(" in chunk ", f.action.chunk, " of ", chunks), when,
      " on stage ", f.stage, " of ", ranks, ", in a step of ", micro_batches, " micro-batches: ",
      f.what == fault::waits
          ? "what it waits for, a neighbour emits after an action that waits for this stage; emit it earlier on one of "
            "the two"
      : f.what == fault::alone
          ? "a forward goes with the backward or backward_inputs that is emitted next, of another micro-batch or chunk"
      : one ? "its order has to emit each of them forward once and backward once, in order"
            : "its order has to emit each of them forward once and backward once in every chunk, in order");
}

/// Throws weft::failure unless P is sound for these sizes. Returns for how many gradients sent back a rank has to keep
/// the memory, of each chunk: more than usual where a schedule has them received late.
template <class P, class On = no_notice>
int check_schedule(int ranks, int micro_batches, On&& on = {}) {
  using fault = schedule_fault::kind;
  const auto n = static_cast<std::size_t>(ranks), stages = n * static_cast<std::size_t>(chunks_of<P>);
  std::vector<pipeline_action> list(stages * 3 * static_cast<std::size_t>(micro_batches));
  std::vector<int> numbers(2 * n + stages);
  std::vector<stage_progress> done(stages);
  const schedule_notes notes{list.data(), numbers.data(), numbers.data() + n, done.data(), numbers.data() + 2 * n};
  const auto try_with = [&](schedule_room room) { return follow<P>(ranks, micro_batches, notes, room, no_notice{}); };
  schedule_room room{.gradients = usual_gradients};
  schedule_fault f = try_with(room);
  while (f.what == fault::waits && room.gradients < schedule_room{}.gradients) {
    room.gradients *= 2;
    f = try_with(room);
  }
  if (f.what == fault::waits && !try_with({micro_batches, micro_batches})) f.what = fault::crowded;
  if (f) fail_of_schedule(P::name, f, ranks, micro_batches, chunks_of<P>, asked_by<P>(ranks, micro_batches));
  if constexpr (!std::is_same_v<std::remove_cvref_t<On>, no_notice>) follow<P>(ranks, micro_batches, notes, room, on);
  return room.gradients;
}

}  // namespace detail
}  // namespace weft
