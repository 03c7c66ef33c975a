// The schedule policy: in which order a rank of the pipeline runs the forwards and backwards of a step's micro-batches,
// and which virtual stages it has. Invariant: a policy only orders; parallel/pipeline.hpp runs, and waits for what the
// neighbours hand over.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include <weft/core/error.hpp>

namespace weft {

/// One thing that a rank does with one micro-batch in one of its chunks of layers. A backward is whole, or in two
/// parts: that of inputs, which the stage before waits for, and later that of weights. `with_next`: a forward that goes
/// together with the backward that is emitted next, whole or its first part, of another micro-batch or chunk: once what
/// both wait for is there they may run beside each other, so that one hides what the other moves.
struct pipeline_action {
  enum class kind : std::uint8_t { forward, backward, backward_inputs, backward_weights };
  kind what;
  int micro_batch;
  int chunk = 0;
  bool with_next = false;
  friend constexpr bool operator==(const pipeline_action&, const pipeline_action&) = default;
};

namespace detail {
/// What stands for the emit that an order is called with: an object, of a type of its own in each use.
struct any_emit {
  constexpr void operator()(pipeline_action) const {}
};
}  // namespace detail

/// `P::order(rank, ranks, micro_batches, emit)` calls emit(pipeline_action) for all that the rank does in a step, in
/// order. In every chunk each micro-batch goes forward once and backward once (whole or in its two parts), forwards and
/// backwards each in the micro-batches' order; `sound_schedule` (policy/follow_schedule.hpp) says whether an order is
/// that, and whether the ranks can follow it together. Where they are left out, `P::chunks` is 1;
/// `P::stage_of(rank, ranks, chunk)`, the virtual stage of 0 ... ranks * chunks - 1 that is the rank's chunk, is rank +
/// chunk * ranks; and `P::asks(ranks, micro_batches)`, what the schedule asks of sizes that it can't take, is empty.
template <class P>
concept schedule_policy = requires(int n, detail::any_emit emit) {
  {std::string_view(P::name)};
  P::order(n, n, n, emit);
};

/// The chunks of layers, each a virtual stage, that a rank has under the schedule P.
template <class P>
inline constexpr int chunks_of = [] {
  if constexpr (requires { P::chunks; })
    return int(P::chunks);
  else
    return 1;
}();

namespace detail {

template <class P>
constexpr int virtual_stage(int rank, int ranks, int chunk) {
  if constexpr (requires { P::stage_of(rank, ranks, chunk); })
    return P::stage_of(rank, ranks, chunk);
  else
    return rank + chunk * ranks;
}

/// What P asks of a step on so many ranks with so many micro-batches, where it can't take it; empty where it can.
template <class P>
constexpr std::string_view asked_by(int ranks, int micro_batches) {
  if constexpr (requires { P::asks(ranks, micro_batches); })
    return P::asks(ranks, micro_batches);
  else
    return {};
}

}  // namespace detail

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

}  // namespace weft
