// A parallel run equals the serial one: the meshes that every strategy is checked on.
#pragma once

#include <iterator>

#include "parallel/training.hpp"
#include "sample.hpp"

namespace weft_test {

// In fp64 rounding is 1e-16; AdamW divides by the root of a small second moment, which multiplies it by up to 1e4 in
// the first steps, and five steps add up. An error of placement (a gradient counted twice or missed) is of order 1.
inline constexpr double fp64_loss = 1e-10, fp64_gradient = 1e-8;
// In fp32 the same reasoning starts from 6e-8: losses agree to 1e-5, gradients of the fifth step to 5e-3 of the
// largest.
inline constexpr double fp32_loss = 1e-5, fp32_gradient = 5e-3;

struct mesh_case {
  weft::degrees degrees;
  int batch = 8, micro_batches = 1;
};
/// Every mesh of 2 to 8 ranks that divides 8 heads and 8 sequences, and others of dp with a batch to match.
inline constexpr mesh_case mesh_cases[] = {
    {{.dp = 2, .tp = 2}, 4, 3},
    {{.dp = 2}},
    {{.tp = 2}},
    {{.dp = 2, .tp = 2}},
    {{.dp = 4}},
    {{.tp = 4}},
    {{.dp = 4, .tp = 2}},
    {{.dp = 2, .tp = 4}},
    {{.dp = 3, .tp = 2}, 6},
    {{.tp = 8}},
    {{.dp = 8}},
    {{.dp = 3}, 3},
    {{.dp = 5}, 5},
    {{.dp = 6}, 6},
    {{.dp = 7}, 7},
};

/// Strategy<Precision> on every mesh (on some of them where tests are sampled), in fp64 and in fp32.
template <template <class> class Strategy>
void check_meshes() {
  for (std::size_t i = 0; i < std::size(mesh_cases); i += std::size_t(sample_stride())) {
    const mesh_case& c = mesh_cases[i];
    const task t{{.batch = c.batch, .micro_batches = c.micro_batches}};
    CAPTURE(c.degrees.dp);
    CAPTURE(c.degrees.tp);
    using wide = Strategy<weft::fp64>;
    check_equal(train<wide>({}, t), train<wide>(c.degrees, t), fp64_loss, fp64_gradient);
    if constexpr (!sanitized) {  // the same code again in another type: it would double a sanitizer's build
      using single = Strategy<weft::fp32>;
      check_equal(train<single>({}, t), train<single>(c.degrees, t), fp32_loss, fp32_gradient);
    }
  }
}

}  // namespace weft_test
