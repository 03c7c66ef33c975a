// Optimizers under every sharding policy and placement: the law of weft/testing/optimizer.hpp, and that it can fail.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/optim/muon.hpp>
#include <weft/optim/sgd.hpp>
#include <weft/testing/optimizer.hpp>

using namespace weft;

namespace {

// Momentum, divided by the matrix's norm: an optimizer of whole matrices that isn't the library's, on the host.
struct normalized_momentum {
  static constexpr int moments = 1;
  static constexpr bool whole_matrices = true;
  double lr = 0.02, momentum = 0.9;

  template <class Share>
  void direction(const Share& s, typename Share::master* out, const optimizer_step& step) const {
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
              const optimizer_step& step) const {
    s.move(step.lr, 0, step.lr, part);
  }
};

// The same by whoever stores a part, for that part alone: what the law has to find.
struct normalized_by_share {
  static constexpr int moments = 0;
  double lr = 0.02;
  void update(auto& share, const optimizer_step& step) const {
    double squares = 1e-24;
    for (const auto g : share.gradient) squares += g * g;
    for (std::size_t i = 0; i < share.weight.size(); ++i)
      share.weight[i] -= step.lr * share.gradient[i] / std::sqrt(squares);
  }
};

}  // namespace

TEST_CASE("by_shape<muon, adamw>: every sharding policy and tp equal one rank") {
  testing::check_optimizer(by_shape{muon{.lr = 0.02}, adamw{.lr = 0.01}});
}
TEST_CASE("sgd: every sharding policy and tp equal one rank") {
  testing::check_optimizer(sgd{.lr = 0.5, .momentum = 0.8, .weight_decay = 0.01, .nesterov = true});
}
TEST_CASE("an optimizer of whole matrices of one's own: every sharding policy and tp equal one rank") {
  testing::check_optimizer(by_shape{normalized_momentum{}, sgd{.lr = 0.1}});
}
TEST_CASE("an optimizer that depends on who stores what is found") {
  CHECK_THROWS_WITH_AS(testing::check_optimizer(normalized_by_share{}), doctest::Contains("zero1: loss of step 2"),
                       failure);
}
