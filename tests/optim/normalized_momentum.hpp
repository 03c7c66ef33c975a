// Momentum, divided by the matrix's norm: an optimizer of whole matrices that isn't the library's, on the host.
#pragma once

#include <cmath>

#include <weft/optim/optimizer.hpp>

namespace weft_test {

struct normalized_momentum {
  static constexpr int moments = 1;
  static constexpr bool whole_matrices = true;
  double lr = 0.02, momentum = 0.9;

  template <class Share>
  void direction(const Share& s, typename Share::master* out, const weft::optimizer_step& step) const {
    s.scaled_gradient(step.grad_scale, out);
    for (std::int64_t i = 0; i < s.count; ++i) out[i] = s.first[i] = momentum * s.first[i] + out[i];
  }
  template <class Matrices>
  void change(const Matrices& x) const {
    const std::int64_t each = x.rows * x.columns;
    for (std::int64_t m = 0; m < x.count; ++m) {
      double squares = 0;
      for (std::int64_t i = m * each; i < (m + 1) * each; ++i) squares += x.data[i] * x.data[i];
      for (std::int64_t i = m * each; i < (m + 1) * each; ++i) x.data[i] /= std::sqrt(squares) + 1e-12;
    }
  }
  template <class Share>
  void update(const Share& s, const typename Share::master* part, std::int64_t, std::int64_t,
              const weft::optimizer_step& step) const {
    s.move(step.lr, 0, step.lr, part);
  }
};

}  // namespace weft_test
