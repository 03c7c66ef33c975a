// Loss spikes: a loss far above what the last ones were. Invariant: a function of the losses alone, so every rank
// counts the same ones.
#pragma once

#include <cmath>
#include <cstdint>

#include <weft/core/finite.hpp>
#include <weft/core/linked.hpp>

namespace weft {

/// What is remembered of the losses before.
struct loss_history {
  double mean = 0, variance = 0;
  std::int64_t seen = 0;
};

/// Mean and variance with exponentially fading weights (of 2 / (window + 1) for the newest); the plain ones of the
/// first `window` losses, which are never spikes. A spike is learned from too, so a loss that stays high is soon the
/// usual one.
class loss_spikes {
 public:
  /// deviations: how many standard deviations above the mean is a spike; 0: nothing is.
  loss_spikes(double deviations, int window, const loss_history& before = {})
      : deviations_(deviations), window_(window), was_(before) {}

  /// Whether `loss` is a spike. What is not finite is passed over.
  WEFT_LINKED bool saw(double loss) {
    if (deviations_ <= 0 || !detail::is_finite(loss)) return false;
    const bool spike = was_.seen >= window_ && loss > was_.mean + deviations_ * std::sqrt(was_.variance);
    ++was_.seen;
    const double weight = was_.seen <= window_ ? 1.0 / static_cast<double>(was_.seen)
                                               : 2.0 / (static_cast<double>(window_) + 1),
                 off = loss - was_.mean;
    was_.mean += weight * off;
    was_.variance = (1 - weight) * (was_.variance + weight * off * off);
    return spike;
  }
  const loss_history& history() const { return was_; }

 private:
  double deviations_;
  std::int64_t window_;
  loss_history was_;
};

}  // namespace weft
