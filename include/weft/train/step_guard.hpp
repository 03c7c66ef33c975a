// The guard: whether a step with these gradients is taken, by the settings of `monitoring`.
// Invariant: it decides on numbers that every rank has alike, and no number that is not finite reaches the weights.
#pragma once

#include <weft/train/loss_spikes.hpp>
#include <weft/train/trainable.hpp>

namespace weft {

/// Throws weft::failure when a setting has no meaning.
inline void check(const monitoring& m) {
  require(m.every >= 0, "statistics of the units are taken every ", m.every,
          " steps; ask for 1 or more, or for 0 (none)");
  require(m.most_in_a_row >= 0, "most_in_a_row is ", m.most_in_a_row, "; it is a number of steps, or 0 (any number)");
  require(m.most_overflows >= 0, "most_overflows is ", m.most_overflows,
          "; it is a number of steps, or 0 (until the loss scale is at its lowest)");
  require(m.spike_deviations >= 0, "spike_deviations is ", m.spike_deviations,
          "; it is above 0, or 0 (no spikes are counted)");
  require(m.spike_window >= 2, "spike_window is ", m.spike_window, "; a deviation is taken over 2 losses or more");
}

/// The same of a whole plan.
inline void check(const training& plan) {
  require(plan.steps >= 1, "a run of ", plan.steps, " steps trains nothing; ask for at least 1");
  require(plan.print_every >= 1, "print_every is ", plan.print_every,
          "; it is a number of steps, at least 1; print = false prints none");
  require(plan.validate_every >= 0, "validate_every is ", plan.validate_every,
          "; it is a number of steps, or 0 (after the last only)");
  require(plan.validation_sequences >= 0, "validation_sequences is ", plan.validation_sequences,
          "; it is a number of sequences, or 0 (no validation)");
  require(plan.clip_norm >= 0, "clip_norm is ", plan.clip_norm, "; it has to be above 0, or 0 (no clipping)");
  check(plan.schedule);
  check(plan.watch);
}

class step_guard {
 public:
  step_guard(trainable& work, const monitoring& settings)
      : work_(work), settings_(settings), spikes_(settings.spike_deviations, settings.spike_window) {}

  /// Whether the step is to be taken, whose loss, norm and spike `r` comes back with; the norm is that of what is left
  /// of the gradients, which are sums over `count` tokens. Throws weft::failure naming the step when the settings say
  /// so.
  bool allows(step_report& r, double count) {
    r.spike = spikes_.saw(r.loss);
    const bool scored = detail::is_finite(r.loss);
    const bool may_overflow = settings_.most_overflows == 0 || overflows_ < settings_.most_overflows;
    if (scored && may_overflow && !work_.accept(r.gradient_norm)) {
      ++overflows_;
      r.skipped = true;
      return false;
    }
    if (scored && detail::is_finite(r.gradient_norm)) {
      in_a_row_ = overflows_ = 0;
      return true;
    }
    r.not_finite =
        scored ? sentence("the gradient norm", r.gradient_norm, r.step) : sentence("the loss", r.loss, r.step);
    if (scored && overflows_ > 0) {
      char scale[32];
      std::snprintf(scale, sizeof scale, "%g", work_.loss_scale());
      r.not_finite += detail::text(", though the loss scale was halved in each of the ", overflows_,
                                   " steps before it, down to ", scale, ": no scale mends that");
    }
    const char* const advice = "lower the learning rate, lengthen the warm-up or check the data";
    require(settings_.on_non_finite != non_finite::stop, r.not_finite, "; training stops there: ", advice);
    const int most = settings_.most_in_a_row;
    require(most == 0 || in_a_row_ < most, r.not_finite, "; the ", in_a_row_,
            " steps before it were no better, so training stops there: ", advice, ", or raise most_in_a_row");
    ++in_a_row_;
    if (scored && settings_.on_non_finite == non_finite::zero) {
      r.zeroed = work_.zero_not_finite();
      r.gradient_norm = work_.gradient_norm() / count;
    }
    r.skipped = !scored || !detail::is_finite(r.gradient_norm);
    return !r.skipped;
  }

 private:
  std::string sentence(const char* what, double number, std::int64_t step) {
    const std::string where = settings_.locate ? work_.locate(step) : "";
    return std::string(what) + " of step " + std::to_string(step) + " is " +
           (detail::is_nan(number) ? "not a number" : "infinite") + (where.empty() ? "" : ", ") + where;
  }

  trainable& work_;
  const monitoring& settings_;
  loss_spikes spikes_;
  int in_a_row_ = 0;
  int overflows_ = 0;  // in a row
};

}  // namespace weft
