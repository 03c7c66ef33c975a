// Loss spikes: a loss far above what the last ones were. Invariant: a function of the losses alone, so every rank
// counts the same ones.
#pragma once

#include <cmath>
#include <cstdint>

#include <weft/core/finite.hpp>

namespace weft {

/// Mean and variance with exponentially fading weights (of 2 / (window + 1) for the newest); the plain ones of the
/// first `window` losses, which are never spikes. A spike is learned from too, so a loss that stays high is soon the
/// usual one.
class loss_spikes {
 public:
  /// deviations: how many standard deviations above the mean is a spike; 0: nothing is.
  loss_spikes(double deviations, int window) : deviations_(deviations), window_(window) {}

  /// Whether `loss` is a spike. What is not finite is passed over.
  bool saw(double loss) {
    if (deviations_ <= 0 || !detail::is_finite(loss)) return false;
    const bool spike = seen_ >= window_ && loss > mean_ + deviations_ * std::sqrt(variance_);
    ++seen_;
    const double weight =
                     seen_ <= window_ ? 1.0 / static_cast<double>(seen_) : 2.0 / (static_cast<double>(window_) + 1),
                 off = loss - mean_;
    mean_ += weight * off;
    variance_ = (1 - weight) * (variance_ + weight * off * off);
    return spike;
  }

 private:
  double deviations_, mean_ = 0, variance_ = 0;
  std::int64_t window_, seen_ = 0;
};

}  // namespace weft
