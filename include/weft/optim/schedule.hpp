// Learning-rate schedules. Invariant: a pure function of the step.
#pragma once

#include <algorithm>
#include <cmath>

#include <weft/core/error.hpp>

namespace weft {

/// Linear warm-up from 0 to 1 over `warmup` steps, then half a cosine down to `floor` at step `steps` (Loshchilov &
/// Hutter 2017). step counts from 0.
struct warmup_cosine {
  int warmup = 0;
  double floor = 0.1;

  double operator()(int step, int steps) const {
    if (step < warmup) return static_cast<double>(step + 1) / warmup;
    const double progress = steps > warmup ? static_cast<double>(step - warmup) / (steps - warmup) : 1.0;
    return floor + (1 - floor) * 0.5 * (1 + std::cos(3.141592653589793 * std::min(progress, 1.0)));
  }
};

}  // namespace weft
