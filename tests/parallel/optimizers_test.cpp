// Optimizers under every sharding policy and placement: the law of weft/testing/optimizer.hpp, and that it can fail.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/op/to_host.hpp>
#include <weft/optim/muon.hpp>
#include <weft/optim/one_owner.hpp>
#include <weft/optim/sgd.hpp>
#include <weft/testing/optimizer.hpp>

#include "optim/normalized_momentum.hpp"

using namespace weft;
using weft_test::normalized_momentum;

namespace {

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
TEST_CASE("by_shape<one_owner<muon>, adamw>: every sharding policy and tp equal one rank") {
  testing::check_optimizer(by_shape{one_owner{muon{.lr = 0.02}}, adamw{.lr = 0.01}});
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

TEST_CASE("SGD updates much in pieces: every element once, and no more made beside it than a piece") {
  constexpr std::int64_t piece = std::int64_t{1} << 22, n = 2 * piece + 5;
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto w = generate<tensor<float, dims<hidden>>>(ctx, {n}, [](std::int64_t i) { return float(i % 7); });
    const auto g = generate<tensor<float, dims<hidden>>>(ctx, {n}, [](std::int64_t i) { return float(i % 5); });
    optimizer_state state;
    const auto peak = [&] { return ctx.memory.ledger().peak[static_cast<std::size_t>(memory::buffers)]; };
    const std::size_t before = peak();
    for (int step = 0; step < 2; ++step) optimizer_update(w, g, state, sgd{.lr = 0.5, .momentum = 0.5});
    CHECK(peak() <= before + std::size_t(piece) * sizeof(float));
    const auto now = on_host(w);
    std::int64_t wrong = 0;  // velocities g and 1.5 g, small integers and halves of them, which float has exactly
    for (std::int64_t i = 0; i < n; ++i)
      wrong += now[static_cast<std::size_t>(i)] != float(i % 7) - 0.5f * 2.5f * float(i % 5);
    CHECK(wrong == 0);
  });
}
