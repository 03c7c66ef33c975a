// What a trainer holds beside its parameter store: plain numbers, the same on every rank.
#pragma once

#include <cstdint>

#include <weft/optim/loss_scale.hpp>
#include <weft/policy/precision.hpp>
#include <weft/train/loss_spikes.hpp>

namespace weft {

/// What a run's guard remembers of its steps.
struct watch_state {
  loss_history losses;
  int in_a_row = 0;   // bad steps, up to the last
  int overflows = 0;  // under the loss scale, in a row
};

/// What of a trainer isn't in its parameter store.
struct trainer_state {
  std::int64_t updates = 0;  // of the weights
  std::int64_t batches = 0;  // that were read
  std::uint64_t passes = 0;  // that were recorded: they number the masks of dropout
  double loss_scale = 1;
  int good_steps = 0, skipped_steps = 0;  // under the loss scale
  watch_state watched = {};
};

/// Throws weft::failure when a number of it has no meaning.
WEFT_LINKED void check(const trainer_state& s) {
  require(s.updates >= 0 && s.batches >= 0, "a trainer's state tells of ", s.updates, " updates and ", s.batches,
          " batches; both are counts, 0 or more");
  require(s.loss_scale > 0 && s.loss_scale - s.loss_scale == 0, "a trainer's state has a loss scale of ", s.loss_scale,
          "; it is a finite number above 0, 1 where nothing is scaled");
}

namespace detail {

/// The loss scale that a precision policy begins with; of most none.
template <class Precision>
loss_scale initial_scale() {
  constexpr double initial = initial_loss_scale<Precision>;
  if constexpr (initial > 0)
    return loss_scale(initial);
  else
    return {};
}

}  // namespace detail
}  // namespace weft
