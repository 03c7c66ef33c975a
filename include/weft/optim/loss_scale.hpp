// Dynamic loss scaling (Micikevicius et al. 2018): as high as gradients in fp16 allow. Invariant: a function of which
// steps had finite gradients, so every rank has the same scale.
#pragma once

#include <weft/core/requirements.hpp>

#include <algorithm>

#include <weft/core/error.hpp>

namespace weft {

/// A gradient that overflows halves the scale and its step is skipped; `patience` good steps in a row double it.
class loss_scale {
 public:
  static constexpr double lowest = 0x1p-24, highest = 0x1p24;  // what halving and doubling end at

  /// None: every step is taken.
  loss_scale() = default;
  /// Throws weft::failure when `initial` is not a number from `lowest` to `highest`, or patience below 1.
  explicit loss_scale(double initial, int patience = 1000) : scale_(initial), patience_(patience), dynamic_(true) {
    require(initial >= lowest && initial <= highest, "a loss scale is a number from 2^-24 to 2^24, not ", initial,
            "; for none make a loss_scale without a number");
    require(patience >= 1, "a loss scale's patience is ", patience, "; it is a number of steps, at least 1");
  }

  /// What the loss is multiplied by, and gradients have to be divided by.
  double value() const { return scale_; }
  bool dynamic() const { return dynamic_; }
  int skipped() const { return skipped_; }
  /// Good steps since the scale changed.
  int good() const { return good_; }
  /// Goes on where another ended, if this is dynamic.
  void resume(double value, int good, int skipped) {
    if (dynamic_) scale_ = value, good_ = good, skipped_ = skipped;
  }

  /// Tells whether a step's gradients were finite. False: they overflowed, and under a lower scale they may not; the
  /// step is to be skipped. True where the scale has no say: no scale is lower, or there is none.
  WEFT_LINKED bool accept(bool finite) {
    if (!dynamic_) return true;
    if (!finite) {
      good_ = 0;
      if (scale_ <= lowest) return true;
      scale_ = std::max(scale_ / 2, lowest);
      ++skipped_;
      return false;
    }
    if (++good_ >= patience_) {
      scale_ = std::min(scale_ * 2, highest);
      good_ = 0;
    }
    return true;
  }

 private:
  double scale_ = 1;
  int patience_ = 1, good_ = 0, skipped_ = 0;
  bool dynamic_ = false;
};

}  // namespace weft
