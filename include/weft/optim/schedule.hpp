// Learning-rate schedules. Invariant: a pure function of the step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <weft/core/error.hpp>
#include <weft/core/finite.hpp>

namespace weft {

/// Linear warm-up over `warmup` steps, the first with 1 / warmup and the last with 1, then half a cosine down to
/// `floor` at step `steps` (Loshchilov & Hutter 2017). step counts from 0.
struct warmup_cosine {
  std::int64_t warmup = 0;
  double floor = 0.1;

  WEFT_LINKED double operator()(std::int64_t step, std::int64_t steps) const {
    if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
    const double progress =
        steps > warmup ? static_cast<double>(step - warmup) / static_cast<double>(steps - warmup) : 1.0;
    return floor + (1 - floor) * 0.5 * (1 + std::cos(3.141592653589793 * std::min(progress, 1.0)));
  }
};

/// Throws weft::failure when a number has no meaning.
inline void check(const warmup_cosine& s) {
  require(s.warmup >= 0, "the schedule's warmup is ", s.warmup, "; it is a number of steps, or 0 for none");
  require(detail::is_finite(s.floor) && s.floor >= 0, "the schedule's floor is ", s.floor,
          "; it is the last step's share of the learning rate, a finite number, at least 0");
}

}  // namespace weft
