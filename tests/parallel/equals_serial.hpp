// A parallel run equals the serial one: the meshes that every strategy is checked on.
#pragma once

#include "parallel/training.hpp"

namespace weft_test {

// In fp64 rounding is 1e-16; AdamW divides by the root of a small second moment, which multiplies it by up to 1e4 in the first
// steps, and five steps add up. An error of placement (a gradient counted twice or missed) is of order 1.
inline constexpr double fp64_loss = 1e-10, fp64_gradient = 1e-8;
// In fp32 the same reasoning starts from 6e-8: losses agree to 1e-5, gradients of the fifth step to 5e-3 of the largest.
inline constexpr double fp32_loss = 1e-5, fp32_gradient = 5e-3;

/// Strategy<Precision> on every mesh of 2 to 8 ranks (all that divide 8 heads and 8 sequences, and dp = 3, 5, 6, 7 with a
/// batch to match).
template <template <class> class Strategy>
void check_meshes() {
  using wide = Strategy<weft::fp64>;
  using single = Strategy<weft::fp32>;
  const auto both = [](weft::degrees d, task t = {}) {
    CAPTURE(d.dp);
    CAPTURE(d.tp);
    check_equal(train<wide>({}, t), train<wide>(d, t), fp64_loss, fp64_gradient);
    check_equal(train<single>({}, t), train<single>(d, t), fp32_loss, fp32_gradient);
  };
  both({.dp = 2});
  both({.tp = 2});
  both({.dp = 2, .tp = 2});
  both({.dp = 4});
  both({.tp = 4});
  both({.dp = 4, .tp = 2});
  both({.dp = 2, .tp = 4});
  both({.tp = 8});
  both({.dp = 8});
  for (const int dp : {3, 5, 6, 7}) both({.dp = dp}, {.batch = dp});
  both({.dp = 3, .tp = 2}, {.batch = 6});
  both({.dp = 2, .tp = 2}, {.batch = 4, .micro_batches = 3});
}

}  // namespace weft_test
