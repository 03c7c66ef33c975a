// What a training step is decided by, where its kernels are: the loss, the gradients' norm, and what gradients are then
// multiplied by. Invariant: a step is taken exactly if all of these are finite, so no number that isn't reaches a
// weight, and no host is asked.
#pragma once

#include <cmath>
#include <limits>

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

  WEFT_LINKED WEFT_ANYWHERE void operator()() const {
    const double sum = loss[0], count = loss[1];
    const double norm = std::sqrt(*squared_norm) / loss_scale / count;
    const double scale = gradient_scale(norm, count, clip_norm) / loss_scale;
    const bool taken = is_finite(sum / count) && is_finite(scale);
    *numbers = {sum, count, norm, taken ? scale : std::numeric_limits<double>::quiet_NaN()};
  }
};

/// A step's numbers where its kernels have them.
template <class Backend>
class decided_step {
 public:
  explicit decided_step(context& ctx) : ctx_(ctx), kept_(ctx.make(dtype::f64, {1, {4}}, memory::buffers)) {}

  /// Gives the queue decide_step. loss: the sum, then the count; squared_norm lies in memory too.
  void decide(const double* loss, const kernel_number& squared_norm, double clip_norm, double loss_scale) {
    require_clip_norm(clip_norm);
    Backend::once(queue(), decide_step{loss, squared_norm.where(), clip_norm, loss_scale, numbers()});
  }
  /// What an optimizer's kernels multiply gradients by.
  kernel_number grad_scale() const { return kernel_number::in_memory(&numbers()->grad_scale); }
  /// For the host, which waits for the queue.
  step_numbers read() const {
    double all[4] = {};
    read_numbers<Backend>(queue(), kept_.as<double>(), all, 4);
    return {all[0], all[1], all[2], all[3]};
  }

 private:
  auto& queue() const { return ctx_.template queue<Backend>(); }
  step_numbers* numbers() const { return static_cast<step_numbers*>(kept_.data); }

  context& ctx_;
  local_array kept_;
};

}  // namespace weft::detail
