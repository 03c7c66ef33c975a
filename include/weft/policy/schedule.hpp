// The schedule policy: in which order a pipeline stage runs the forwards and backwards of a step's micro-batches.
// Invariant: a policy only orders; parallel/pipeline.hpp runs, and waits for what the neighbours hand over.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string_view>

#include <weft/core/error.hpp>

namespace weft {

/// One thing that a stage does with one micro-batch. A backward is whole, or in two parts: that of inputs, which the
/// stage before waits for, and later that of weights.
struct pipeline_action {
  enum class kind : std::uint8_t { forward, backward, backward_inputs, backward_weights };
  kind what;
  int micro_batch;
  friend constexpr bool operator==(const pipeline_action&, const pipeline_action&) = default;
};

/// `P::order(stage, stages, micro_batches, emit)` calls emit(pipeline_action) for all that the stage does in a step, in
/// order. On every stage each micro-batch goes forward once and backward once (whole or in its two parts), forwards and
/// backwards each in the micro-batches' order; `sound_schedule` below says whether an order is that, and whether the
/// stages can follow it together.
template <class P>
concept schedule_policy = requires(int n, void (*emit)(pipeline_action)) {
  {std::string_view(P::name)};
  P::order(n, n, n, emit);
};

/// One forward, one backward (Narayanan et al. 2019; 2021): stage r begins with stages - r - 1 forwards, so that it
/// never holds the activations of more than stages - r micro-batches. Idle: (stages - 1) / micro_batches of the ideal
/// time. Backwards are whole, since one in two parts keeps what a whole one frees on its way: every gradient of an
/// activation, and under recomputation everything that was computed again.
struct one_f_one_b {
  static constexpr std::string_view name = "one_f_one_b";

  template <class Emit>
  static constexpr void order(int stage, int stages, int micro_batches, Emit&& emit) {
    using enum pipeline_action::kind;
    const int ahead = stages - stage - 1;
    for (int m = 0; m < micro_batches + ahead; ++m) {
      if (m < micro_batches) emit(pipeline_action{forward, m});
      if (m >= ahead) emit(pipeline_action{backward, m - ahead});
    }
  }
};

/// What one stage has done of a step: three numbers tell it, since each kind of action goes in the micro-batches'
/// order.
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
  static constexpr bool has_inputs(pipeline_action::kind what) {
    return what == pipeline_action::kind::backward || what == pipeline_action::kind::backward_inputs;
  }
  static constexpr bool has_weights(pipeline_action::kind what) {
    return what == pipeline_action::kind::backward || what == pipeline_action::kind::backward_weights;
  }
};

/// What is wrong with a schedule, and where first; `kind::none` where nothing is.
struct schedule_fault {
  enum class kind : std::uint8_t { none, left_out, not_due, waits };
  kind what = kind::none;
  int stage = 0;
  pipeline_action action = {};
  constexpr explicit operator bool() const { return what != kind::none; }
};

namespace detail {

/// What a stage leaves out, if anything.
constexpr schedule_fault left_out(int stage, const stage_progress& done, int micro_batches) {
  using enum pipeline_action::kind;
  const auto lacks = [&](pipeline_action::kind what, int n) {
    return schedule_fault{schedule_fault::kind::left_out, stage, {what, n}};
  };
  if (done.forwards < micro_batches) return lacks(forward, done.forwards);
  if (done.inputs < micro_batches) return lacks(done.inputs == done.weights ? backward : backward_inputs, done.inputs);
  if (done.weights < micro_batches) return lacks(backward_weights, done.weights);
  return {};
}

/// Follows P on `stages` stages, each of which goes on as soon as what it waits for is there, and returns what is wrong
/// with it. list: room for stages * 3 * micro_batches actions; length, next, done: for `stages` numbers.
template <class P>
constexpr schedule_fault follow(int stages, int micro_batches, pipeline_action* list, int* length, int* next,
                                stage_progress* done) {
  using enum pipeline_action::kind;
  const int most = 3 * micro_batches;
  for (int s = 0; s < stages; ++s) {
    schedule_fault fault;
    stage_progress so_far;
    length[s] = next[s] = 0;
    done[s] = {};
    P::order(s, stages, micro_batches, [&](pipeline_action a) {
      if (fault) return;
      if (a.micro_batch >= micro_batches || !so_far.take(a))
        fault = {schedule_fault::kind::not_due, s, a};
      else
        list[s * most + length[s]++] = a;
    });
    if (!fault) fault = left_out(s, so_far, micro_batches);
    if (fault) return fault;
  }
  const auto ready = [&](int s, pipeline_action a) {
    if (a.what == forward) return s == 0 || done[s - 1].forwards > a.micro_batch;
    if (a.what == backward_weights) return done[s].inputs > a.micro_batch;
    return done[s].forwards > a.micro_batch && (s == stages - 1 || done[s + 1].inputs > a.micro_batch);
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < stages; ++s)
      for (; next[s] < length[s] && ready(s, list[s * most + next[s]]); moved = true)
        done[s].take(list[s * most + next[s]++]);
  }
  for (int s = 0; s < stages; ++s)
    if (next[s] < length[s]) return {schedule_fault::kind::waits, s, list[s * most + next[s]]};
  return {};
}

template <class P, int Stages, int MicroBatches>
constexpr bool is_sound() {
  constexpr auto stages = static_cast<std::size_t>(Stages), micro_batches = static_cast<std::size_t>(MicroBatches);
  pipeline_action list[stages * 3 * micro_batches] = {};
  int length[stages] = {}, next[stages] = {};
  stage_progress done[stages] = {};
  return !follow<P>(Stages, MicroBatches, list, length, next, done);
}

/// Throws weft::failure, with what is wrong in a sentence.
[[noreturn, gnu::cold]] inline void fail_of_schedule(std::string_view name, const schedule_fault& f, int stages,
                                                     int micro_batches) {
  constexpr const char *does[] = {"", " leaves out ", " emits ", " waits for ever before "},
                       *actions[] = {"forward", "backward", "backward_inputs", "backward_weights",
                                     "an action of no pipeline_action::kind"};
  fail("the schedule ", name, does[static_cast<int>(f.what)], actions[std::min(static_cast<int>(f.action.what), 4)],
       " of micro-batch ", f.action.micro_batch, f.what == schedule_fault::kind::not_due ? " out of turn" : "",
       " on stage ", f.stage, " of ", stages, ", in a step of ", micro_batches,
       " micro-batches: its order has to emit each of them forward once and backward once, in order");
}

}  // namespace detail

/// Whether every stage does all that it has to, in order, and none waits for ever.
template <schedule_policy P, int Stages, int MicroBatches>
inline constexpr bool sound_schedule = detail::is_sound<P, Stages, MicroBatches>();

}  // namespace weft
