// What a training step is decided by, where its kernels are: the loss, the gradients' norm, and what gradients are then
// multiplied by. Invariant: a step is taken exactly if all of these are finite, so no number that isn't reaches a
// weight, and no host is asked.
#pragma once

#include <cmath>
#include <limits>
#include <memory>

#include <weft/core/anywhere.hpp>
#include <weft/optim/adamw.hpp>

namespace weft::detail {

/// What gradients that are sums over `count` tokens are multiplied by: to the mean, and down to clip_norm. NaN where
/// the norm is not finite.
constexpr double gradient_scale(double norm_of_mean, double count, double clip_norm) {
  return factor_of_clipping(norm_of_mean, clip_norm) / count;
}

/// A step's numbers in the backend's memory, which the host reads at once.
struct step_numbers {
  double loss, count;    // sums over the step's tokens
  double gradient_norm;  // of the mean loss, before clipping
  double grad_scale;     // what gradients are multiplied by; NaN: the step isn't taken
};

/// A kernel: from a step's sums to its numbers. Gradients are those of the summed loss times loss_scale.
struct decide_step {
  const double *loss, *squared_norm;  // loss: the sum, then the count
  double clip_norm, loss_scale;
  step_numbers* numbers;
  const step_numbers* before = nullptr;  // the step's before it, on which it depends; null: it is known to be taken

  WEFT_LINKED WEFT_ANYWHERE void operator()() const {
    const double sum = loss[0], count = loss[1];
    const double norm = std::sqrt(*squared_norm) / loss_scale / count;
    const double scale = gradient_scale(norm, count, clip_norm) / loss_scale;
    const bool taken =
        count > 0 && is_finite(sum / count) && is_finite(scale) && !(before && is_nan(before->grad_scale));
    *numbers = {sum, count, norm, taken ? scale : std::numeric_limits<double>::quiet_NaN()};
  }
};

/// Whether the host can read a step's numbers without waiting for what it gave since.
template <class Backend>
inline constexpr bool reads_late = Backend::queue::runs_behind&& landing_queue<typename Backend::queue>;

/// Steps' numbers where their kernels have them. At most two steps' are to be read: the second was given before the
/// host knew of the first, and isn't taken unless that was.
template <class Backend>
class decided_step {
 public:
  explicit decided_step(context& ctx) : ctx_(ctx), kept_(ctx.make(dtype::f64, {1, {8}}, memory::buffers)) {}

  /// Gives the queue decide_step. loss: the sum, then the count; squared_norm lies in memory too.
  void decide(const double* loss, const kernel_number& squared_norm, double clip_norm, double loss_scale) {
    require_clip_norm(clip_norm);
    require(unread_ < 2, "two steps were given whose numbers haven't been read: read() those of the first");
    const step_numbers* const before = unread_ > 0 ? numbers(newest_) : nullptr;
    newest_ = 1 - newest_, ++unread_, fetched_[newest_] = false;
    Backend::once(queue(), decide_step{loss, squared_norm.where(), clip_norm, loss_scale, numbers(newest_), before});
  }
  /// What an optimizer's kernels multiply gradients by: of the newest step.
  kernel_number grad_scale() const { return kernel_number::in_memory(&numbers(newest_)->grad_scale); }
  /// Sends the newest step's numbers on their way to the host, which then waits for what was given so far alone.
  void fetch() {
    if constexpr (reads_late<Backend>) {
      if (!landings_[newest_])
        landings_[newest_] = std::make_unique<typename Backend::queue::landing>(queue(), sizeof(step_numbers));
      landings_[newest_]->fetch(numbers(newest_));
      fetched_[newest_] = true;
    }
  }
  /// The oldest that weren't read, for the host, which waits.
  step_numbers read() {
    const int slot = unread_ == 2 ? 1 - newest_ : newest_;
    unread_ -= unread_ > 0;
    if constexpr (reads_late<Backend>)
      if (fetched_[slot]) return *static_cast<const step_numbers*>(landings_[slot]->wait());
    double all[4] = {};
    read_numbers<Backend>(queue(), &numbers(slot)->loss, all, 4);
    return {all[0], all[1], all[2], all[3]};
  }
  /// Those that weren't read are of no interest.
  void forget() { unread_ = 0; }

 private:
  auto& queue() const { return ctx_.template queue<Backend>(); }
  step_numbers* numbers(int slot) const { return static_cast<step_numbers*>(kept_.data) + slot; }

  struct nowhere {};
  template <class Q, bool>
  struct place {
    using type = nowhere;
  };
  template <class Q>
  struct place<Q, true> {
    using type = std::unique_ptr<typename Q::landing>;
  };

  context& ctx_;
  local_array kept_;
  typename place<typename Backend::queue, reads_late<Backend>>::type landings_[2];
  int newest_ = 0, unread_ = 0;
  bool fetched_[2] = {};
};

}  // namespace weft::detail
