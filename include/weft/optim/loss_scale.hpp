// Dynamic loss scaling (Micikevicius et al. 2018): as high as gradients in fp16 allow. Invariant: a function of which
// steps had finite gradients, so every rank has the same scale.
#pragma once

#include <algorithm>

namespace weft {

/// A gradient that overflows halves the scale and its step is skipped; `patience` good steps in a row double it.
class loss_scale {
 public:
  explicit loss_scale(double initial, int patience = 1000)
      : scale_(initial > 0 ? initial : 1), patience_(patience), dynamic_(initial > 0) {}

  /// What the loss is multiplied by, and gradients have to be divided by.
  double value() const { return scale_; }
  bool dynamic() const { return dynamic_; }
  int skipped() const { return skipped_; }

  /// Tells whether a step's gradients were finite; true if the step may be taken.
  bool accept(bool finite) {
    if (!dynamic_ || (finite && ++good_ < patience_)) return true;
    scale_ = std::clamp(finite ? scale_ * 2 : scale_ / 2, 0x1p-24, 0x1p24);
    good_ = 0;
    skipped_ += finite ? 0 : 1;
    return finite;
  }

 private:
  double scale_;
  int patience_, good_ = 0, skipped_ = 0;
  bool dynamic_;
};

}  // namespace weft
