// The schedule policy: in which order a pipeline stage runs the forwards and backwards of a step's micro-batches.
// Invariant: a policy only orders; parallel/pipeline.hpp runs, and waits for what the neighbours hand over.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

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

namespace detail {

// Where the stages have got to, in a run in which each goes on as soon as what it waits for has been handed over.
template <class P, int Stages, int MicroBatches>
struct schedule_run {
  static constexpr int most = 3 * MicroBatches;
  pipeline_action list[Stages][most] = {};
  int length[Stages] = {}, done[Stages] = {};
  int forwards[Stages] = {}, inputs[Stages] = {}, weights[Stages] = {};
  bool sound = true;

  constexpr schedule_run() {
    for (int s = 0; s < Stages; ++s)
      P::order(s, Stages, MicroBatches, [&](pipeline_action a) {
        if (length[s] == most)
          sound = false;
        else
          list[s][length[s]++] = a;
      });
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 0; s < Stages; ++s)
        while (sound && done[s] < length[s] && ready(s, list[s][done[s]])) {
          run(s, list[s][done[s]++]);
          moved = true;
        }
    }
    for (int s = 0; s < Stages; ++s)
      sound = sound && done[s] == length[s] && forwards[s] == MicroBatches && inputs[s] == MicroBatches &&
              weights[s] == MicroBatches;
  }

 private:
  constexpr bool ready(int s, pipeline_action a) const {
    using enum pipeline_action::kind;
    if (a.what == forward) return s == 0 || forwards[s - 1] > a.micro_batch;
    if (a.what == backward_weights) return inputs[s] > a.micro_batch;
    return forwards[s] > a.micro_batch && (s == Stages - 1 || inputs[s + 1] > a.micro_batch);
  }
  constexpr void run(int s, pipeline_action a) {
    using enum pipeline_action::kind;
    const auto count = [&](bool does, int& so_far) {
      if (does && so_far++ != a.micro_batch) sound = false;  // out of order, left out or done twice
    };
    count(a.what == forward, forwards[s]);
    count(a.what == backward || a.what == backward_inputs, inputs[s]);
    count(a.what == backward || a.what == backward_weights, weights[s]);
  }
};

}  // namespace detail

/// Whether every stage does all that it has to, in order, and none waits for ever.
template <schedule_policy P, int Stages, int MicroBatches>
inline constexpr bool sound_schedule = detail::schedule_run<P, Stages, MicroBatches>().sound;

}  // namespace weft
