// Follows a pipeline's schedule on all ranks without computing anything: whether each does all that it has to, in
// order, and none waits for ever, with the buffers that the pipeline has. Invariant: what is waited for here is what
// parallel/pipeline.hpp waits for.
#pragma once

#include <cstddef>

#include <weft/policy/schedule.hpp>

namespace weft {

/// What one virtual stage has done of a step: three numbers tell it, since each kind of action goes in the
/// micro-batches' order.
struct stage_progress {
  int forwards = 0, inputs = 0, weights = 0;  // done: forwards, and both parts of backwards

  /// Counts `a`; false, and nothing counted, where it isn't what is due.
  constexpr bool take(pipeline_action a) {
    if (a.what > pipeline_action::kind::backward_weights || due(a.what) != a.micro_batch) return false;
    forwards += a.what == pipeline_action::kind::forward;
    inputs += has_inputs(a.what);
    weights += has_weights(a.what);
    return true;
  }
  /// The micro-batch whose turn it is; of a whole backward -1 while one in two parts lacks its second.
  constexpr int due(pipeline_action::kind what) const {
    if (what == pipeline_action::kind::forward) return forwards;
    if (what == pipeline_action::kind::backward) return inputs == weights ? inputs : -1;
    return has_inputs(what) ? inputs : weights;
  }
  /// Whether the stage itself has done what `a` is made of: no neighbour's work brings it about later.
  constexpr bool has_made(pipeline_action a) const {
    if (a.what == pipeline_action::kind::backward_weights) return inputs > a.micro_batch;
    return a.what == pipeline_action::kind::forward || forwards > a.micro_batch;
  }
  static constexpr bool has_inputs(pipeline_action::kind what) {
    return what == pipeline_action::kind::backward || what == pipeline_action::kind::backward_inputs;
  }
  static constexpr bool has_weights(pipeline_action::kind what) {
    return what == pipeline_action::kind::backward || what == pipeline_action::kind::backward_weights;
  }
};

/// What is wrong with a schedule, and where first; `kind::none` where nothing is.
struct schedule_fault {
  enum class kind : std::uint8_t { none, left_out, not_due, early, alone, waits, crowded, misplaced, refused };
  kind what = kind::none;
  int stage = 0;  // the rank along pp
  pipeline_action action = {};
  constexpr explicit operator bool() const { return what != kind::none; }
};

namespace detail {

/// What may be under way between two virtual stages on different ranks before the sender waits. A communicator takes 16
/// messages of each pair and tag; of gradients sent back a rank keeps the memory, as a rule of two for each chunk.
struct schedule_room {
  int activations = 16, gradients = 16;
};
inline constexpr int usual_gradients = 2;

/// Where a schedule is written down while it is followed.
struct schedule_notes {
  pipeline_action* list;  // ranks * chunks * 3 * micro_batches
  int *length, *next;     // ranks
  stage_progress* done;   // ranks * chunks, by virtual stage
  int* rank_of;           // the same
};

/// Whether there is such a chunk and micro-batch.
template <class P>
constexpr bool is_known(pipeline_action a, int micro_batches) {
  return a.chunk >= 0 && a.chunk < chunks_of<P> && a.micro_batch >= 0 && a.micro_batch < micro_batches;
}

/// What a rank leaves out of a chunk, if anything.
constexpr schedule_fault left_out(int rank, int chunk, const stage_progress& done, int micro_batches) {
  using enum pipeline_action::kind;
  const auto lacks = [&](pipeline_action::kind what, int n) {
    return schedule_fault{schedule_fault::kind::left_out, rank, {what, n, chunk}};
  };
  if (done.forwards < micro_batches) return lacks(forward, done.forwards);
  if (done.inputs < micro_batches) return lacks(done.inputs == done.weights ? backward : backward_inputs, done.inputs);
  if (done.weights < micro_batches) return lacks(backward_weights, done.weights);
  return {};
}

/// Whether every virtual stage lies on one rank; notes each one's.
template <class P>
constexpr schedule_fault place_stages(int ranks, int* rank_of) {
  const int stages = ranks * chunks_of<P>;
  for (int v = 0; v < stages; ++v) rank_of[v] = -1;
  for (int r = 0; r < ranks; ++r)
    for (int c = 0; c < chunks_of<P>; ++c) {
      const int v = virtual_stage<P>(r, ranks, c);
      if (v < 0 || v >= stages || rank_of[v] >= 0)
        return {schedule_fault::kind::misplaced, r, {pipeline_action::kind::forward, v, c}};
      rank_of[v] = r;
    }
  return {};
}

/// Whether the two may be one: a forward, and a backward of another micro-batch or chunk.
constexpr bool go_together(pipeline_action forward, pipeline_action back) {
  return forward.what == pipeline_action::kind::forward && stage_progress::has_inputs(back.what) && !back.with_next &&
         (forward.micro_batch != back.micro_batch || forward.chunk != back.chunk);
}

/// Writes down what a rank does, unless that is wrong by itself.
template <class P>
constexpr schedule_fault list_actions(int rank, int ranks, int micro_batches, const schedule_notes& notes) {
  schedule_fault fault;
  stage_progress so_far[static_cast<std::size_t>(chunks_of<P>)];
  const int most = chunks_of<P> * 3 * micro_batches;
  notes.length[rank] = notes.next[rank] = 0;
  P::order(rank, ranks, micro_batches, [&](pipeline_action a) {
    if (fault) return;
    const int n = notes.length[rank];
    const pipeline_action* const before = n > 0 ? &notes.list[rank * most + n - 1] : nullptr;
    const bool known = is_known<P>(a, micro_batches);
    const bool made = known && so_far[a.chunk].has_made(a);
    if (!known || !so_far[a.chunk].take(a))
      fault = {schedule_fault::kind::not_due, rank, a};
    else if (!made)
      fault = {schedule_fault::kind::early, rank, a};
    else if (before && before->with_next && !go_together(*before, a))
      fault = {schedule_fault::kind::alone, rank, *before};
    else
      notes.list[rank * most + notes.length[rank]++] = a;
  });
  if (const int n = notes.length[rank]; !fault && n > 0 && notes.list[rank * most + n - 1].with_next)
    fault = {schedule_fault::kind::alone, rank, notes.list[rank * most + n - 1]};
  for (int c = 0; c < chunks_of<P> && !fault; ++c) fault = left_out(rank, c, so_far[c], micro_batches);
  return fault;
}

struct no_notice {
  constexpr void operator()(int, pipeline_action) const {}
};

/// Follows P on `ranks` ranks, each of which goes on as soon as what it waits for is there, and returns what is wrong
/// with it. on(rank, action) is told of each that is done.
template <class P, class On>
constexpr schedule_fault follow(int ranks, int micro_batches, const schedule_notes& notes, schedule_room room,
                                On&& on) {
  using enum pipeline_action::kind;
  if (!asked_by<P>(ranks, micro_batches).empty()) return {schedule_fault::kind::refused, 0, {}};
  if (const schedule_fault f = place_stages<P>(ranks, notes.rank_of)) return f;
  for (int r = 0; r < ranks; ++r)
    if (const schedule_fault f = list_actions<P>(r, ranks, micro_batches, notes)) return f;
  const int most = chunks_of<P> * 3 * micro_batches, last = ranks * chunks_of<P> - 1;
  for (int v = 0; v <= last; ++v) notes.done[v] = {};
  const auto has_room = [&](int from, int to, int under_way, int most_under_way) {
    return notes.rank_of[from] == notes.rank_of[to] || under_way < most_under_way;
  };
  const auto ready = [&](int r, pipeline_action a) {
    const int v = virtual_stage<P>(r, ranks, a.chunk), m = a.micro_batch;
    const stage_progress* const done = notes.done + v;
    if (a.what == backward_weights) return done->inputs > m;
    if (a.what == forward)
      return (v == 0 || done[-1].forwards > m) &&
             (v == last || has_room(v, v + 1, m - done[1].forwards, room.activations));
    return done->forwards > m && (v == last || done[1].inputs > m) &&
           (v == 0 || has_room(v, v - 1, m - done[-1].inputs, room.gradients));
  };
  const auto next = [&](int r) { return notes.list[r * most + notes.next[r]]; };
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < ranks; ++r)
      for (; notes.next[r] < notes.length[r]; ++notes.next[r], moved = true) {
        const pipeline_action a = next(r);
        if (!ready(r, a) || (a.with_next && !ready(r, notes.list[r * most + notes.next[r] + 1]))) break;
        notes.done[virtual_stage<P>(r, ranks, a.chunk)].take(a);
        on(r, a);
      }
  }
  for (int r = 0; r < ranks; ++r)
    if (notes.next[r] < notes.length[r]) return {schedule_fault::kind::waits, r, next(r)};
  return {};
}

template <class P, int Ranks, int MicroBatches>
constexpr bool is_sound() {
  constexpr auto ranks = static_cast<std::size_t>(Ranks), stages = ranks * static_cast<std::size_t>(chunks_of<P>);
  pipeline_action list[stages * 3 * static_cast<std::size_t>(MicroBatches)] = {};
  int length[ranks] = {}, next[ranks] = {}, rank_of[stages] = {};
  stage_progress done[stages] = {};
  return !follow<P>(Ranks, MicroBatches, {list, length, next, done, rank_of}, schedule_room{}, no_notice{});
}

}  // namespace detail

/// Whether every rank does all that it has to, in order, and none waits for ever. False for sizes that the schedule
/// doesn't take.
template <schedule_policy P, int Ranks, int MicroBatches>
inline constexpr bool sound_schedule = detail::is_sound<P, Ranks, MicroBatches>();

}  // namespace weft
