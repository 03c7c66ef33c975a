// What the training loop asks of a model with its parameters, its data and its optimizer state.
// Invariant: all ranks call each of these, and take the same decisions from what they return.
#pragma once

#include <string>
#include <vector>

#include <weft/optim/optimizer.hpp>
#include <weft/train/trainer_state.hpp>
#include <weft/train/training.hpp>
#include <weft/train/unit_statistics.hpp>

namespace weft {

/// What the loop tells of an update.
struct step_rule {
  std::int64_t number;  // of updates, this one included: from 1
  double lr;
  double clip_norm;  // 0: no clipping
};

/// What became of a step.
struct step_outcome {
  loss_sums loss;            // over all ranks
  double gradient_norm = 0;  // of the mean loss, before clipping
  bool taken = false;        // its loss, its norm and what its gradients were multiplied by are finite
};

namespace detail {
/// What a trainer asks of a model's type at least.
template <class M>
concept trainable_model = requires {
  typename M::strategy;
  typename M::ids;
};
}  // namespace detail

/// Steps count from 1.
class trainable {
 public:
  virtual ~trainable() = default;
  /// Updates of the weights before this run (not the steps that were skipped); the optimizer counts on from there.
  virtual std::int64_t steps_before() const { return 0; }
  /// Gives the queue a step's gradients: sums over its tokens, finished over the ranks, and the loss as global sums.
  virtual void gradients(std::int64_t step) = 0;
  /// Gives it their norm, and the update of the weights, which is taken if what decides it is finite (see decide_step).
  virtual void update(const step_rule& rule) = 0;
  /// What became of the oldest update of which that wasn't asked: once for each. It is the one call of a step that
  /// waits for the queue. Where that update wasn't taken and another was given behind it, that one isn't taken either,
  /// and is as if it hadn't been given.
  virtual step_outcome outcome() = 0;
  /// Whether a step may be given before outcome() of the one before it.
  virtual bool runs_ahead() const { return false; }
  /// Updates whose outcome is still to be asked for.
  virtual int under_way() const { return 0; }
  /// Tells a loss scale whether gradients were finite. False: they may be under a lower one, which the next step has.
  virtual bool accept(bool finite) = 0;
  /// What the next loss is multiplied by.
  virtual double loss_scale() const { return 1; }
  /// Global sums over the held-out sequences; a count of 0 where there are none.
  virtual loss_sums validate() = 0;
  /// What the last validate() measured beside the loss, over all ranks.
  virtual std::vector<metric_value> metrics() { return {}; }
  virtual std::vector<std::string> unit_names() const = 0;
  /// What the guard remembers of the steps before.
  virtual watch_state& watched() { return watched_; }

  // What a monitor asks for, of those who can tell.

  /// Whether the gradients() to come also measure what units pass on.
  virtual void observe(bool) {}
  /// Every unit's statistics over all ranks, on the first rank: of what was observed, of the weights and moments as
  /// they are, and of the gradients of the mean loss.
  virtual std::vector<unit_statistics> statistics() { return {}; }
  /// Computes the gradients of `step` again and says where its first number that is not finite is seen, in a clause
  /// that is the same on every rank. Empty when that can't be said.
  virtual std::string locate(std::int64_t /*step*/) { return {}; }
  /// Sets gradient elements of the step of the last outcome() that are not finite to zero.
  virtual zeroed_elements zero_not_finite() { return {}; }

 private:
  watch_state watched_;
};

}  // namespace weft
