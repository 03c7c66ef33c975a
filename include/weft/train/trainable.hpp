// What the training loop asks of a model with its parameters, its data and its optimizer state.
// Invariant: all ranks call each of these, and take the same decisions from what they return.
#pragma once

#include <string>
#include <vector>

#include <weft/optim/optimizer.hpp>
#include <weft/train/training.hpp>
#include <weft/train/unit_statistics.hpp>

namespace weft {

/// Steps count from 1.
class trainable {
 public:
  virtual ~trainable() = default;
  /// Updates of the weights before this run (not the steps that were skipped); the optimizer counts on from there.
  virtual std::int64_t steps_before() const { return 0; }
  /// Computes a step's gradients: sums over its tokens, finished over the ranks. Returns the loss as global sums.
  virtual loss_sums gradients(std::int64_t step) = 0;
  /// The global norm of those sums.
  virtual double gradient_norm() = 0;
  /// Whether gradients of this norm may be used, as far as a loss scale is concerned. False skips the step.
  virtual bool accept(double norm) = 0;
  /// What the next loss is multiplied by.
  virtual double loss_scale() const { return 1; }
  virtual void update(const optimizer_step& step) = 0;
  /// Global sums over the held-out sequences; a count of 0 where there are none.
  virtual loss_sums validate() = 0;
  virtual std::vector<std::string> unit_names() const = 0;
  /// What this rank's kernels keep for scratch, which its ledger doesn't have.
  virtual std::size_t scratch_bytes() const { return 0; }

  // What a monitor asks for, of those who can tell.

  /// Whether the gradients() to come also measure what units pass on.
  virtual void observe(bool) {}
  /// Every unit's statistics over all ranks, on the first rank: of what was observed, of the weights and moments as
  /// they are, and of the gradients times `gradient_scale`.
  virtual std::vector<unit_statistics> statistics(double /*gradient_scale*/) { return {}; }
  /// Computes the gradients of `step` again and says where its first number that is not finite is seen, in a clause
  /// that is the same on every rank. Empty when that can't be said.
  virtual std::string locate(std::int64_t /*step*/) { return {}; }
  /// Sets gradient elements that are not finite to zero.
  virtual zeroed_elements zero_not_finite() { return {}; }
};

}  // namespace weft
