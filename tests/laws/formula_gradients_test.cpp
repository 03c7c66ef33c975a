// Finite differences for operators made of formulas, in placements of every kind, and for numbers beside tensors.
#include <doctest/doctest.h>

#include <weft/op/formula.hpp>
#include <weft/op/scalar.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using x3 = dims<batch, seq, hidden>;

struct wave {  // one operand, all forms of vjp beside it
  static constexpr std::string_view name = "wave";
  double pitch;
  double forward(double x) const { return std::sin(pitch * x); }
  double vjp(double dy, double x, double) const { return dy * pitch * std::cos(pitch * x); }
};
struct tripled {
  static constexpr std::string_view name = "tripled";
  static constexpr linearity linear = linearity::joint;
  double forward(double x) const { return 3 * x; }
  double vjp(double dy) const { return 3 * dy; }
};
struct apart {  // a - 2 b
  static constexpr std::string_view name = "apart";
  static constexpr linearity linear = linearity::joint;
  double forward(double a, double b) const { return a - 2 * b; }
  std::array<double, 2> vjp(double dy) const { return {dy, -2 * dy}; }
};
struct product3 {
  static constexpr std::string_view name = "product3";
  static constexpr linearity linear = linearity::each;
  double forward(double a, double b, double c) const { return a * b * c; }
  std::array<double, 3> vjp(double dy, double a, double b, double c) const {
    return {dy * b * c, dy * a * c, dy * a * b};
  }
};
struct ratio {
  static constexpr std::string_view name = "ratio";
  static constexpr linearity linear = linearity::first;
  double forward(double a, double b) const { return a / b; }
  std::array<double, 2> vjp(double dy, double, double b, double y) const { return {dy / b, -dy * y / b}; }
};
struct blend {
  static constexpr std::string_view name = "blend";
  double forward(double w, double a, double b) const { return w * a + (1 - w) * b; }
  std::array<double, 3> vjp(double dy, double w, double a, double b) const {
    return {dy * (a - b), dy * w, dy * (1 - w)};
  }
};

TEST_CASE("formulas of one tensor") {
  const auto bend = [](const auto& x) { return elementwise(wave{1.5}, x); };
  const auto triple = [](const auto& x) { return elementwise(tripled{}, x); };
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>>("wave, sharded", bend);
  gradients<real<x3, shard<seq, dp, tp>>>("wave, over two axes", bend);
  gradients<real<x3, replicate<tp>>>("wave, replicate", bend);
  gradients<real<dims<>>>("wave of a scalar", bend);
  gradients<real<x3, partial<dp>, shard<seq, tp>>>("tripled pending sum", triple);
}

TEST_CASE("formulas of two tensors") {
  const auto subtract = [](const auto& a, const auto& b) { return elementwise(apart{}, a, b); };
  const auto divide = [](const auto& a, const auto& b) { return elementwise(ratio{}, a, b); };
  gradients<real<x3, partial<tp>>, real<dims<seq, hidden>, partial<tp>>>("two pending sums", subtract);
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>, real<dims<hidden>, shard<hidden, tp>>>("a row", subtract);
  gradients<real<dims<hidden, batch>>, real<x3, shard<seq, tp>>>("other order, broadcast first", subtract);
  gradients<real<x3, partial<dp>>, real<dims<batch>>>("a pending sum over a column", divide);
  gradients<real<dims<hidden>, replicate<dp>>, real<dims<hidden, seq>, shard<seq, tp, dp>>>("over a larger one",
                                                                                            divide);
  gradients<real<x3, shard<seq, tp>>>(
      "a tensor and itself", [](const auto& a) { return elementwise(product3{}, a, elementwise(apart{}, a, a), a); });
}

TEST_CASE("formulas of three tensors") {
  const auto multiply = [](const auto& a, const auto& b, const auto& c) { return elementwise(product3{}, a, b, c); };
  const auto mix = [](const auto& w, const auto& a, const auto& b) { return elementwise(blend{}, w, a, b); };
  gradients<real<dims<seq>>, real<x3, partial<tp>>, real<dims<hidden>, replicate<dp>>>("one pending factor", multiply);
  gradients<real<dims<hidden, seq>, shard<seq, dp>>, real<dims<batch>>, real<x3, shard<seq, dp>, shard<batch, tp>>>(
      "a column split on the way",
      [](const auto& a, const auto& b, const auto& c) { return elementwise(product3{}, a, split<batch, tp>(b), c); });
  gradients<real<dims<hidden>>, real<x3, shard<batch, dp>>, real<x3, shard<batch, dp>>>("invariant weights", mix);
  gradients<real<dims<>>, real<dims<seq>, shard<seq, tp>>, real<dims<hidden>, shard<hidden, dp>>>("an outer mixture",
                                                                                                  mix);
}

TEST_CASE("numbers beside tensors") {
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>>(
      "x + 1, 2 - x, 1 / x", [](const auto& x) { return 3.0 / (x * x + 2) + (1 + x) * (2.0 - x) - 1.5; });
  gradients<real<x3, partial<tp>>>("a pending sum over a number", [](const auto& x) { return x / 4; });
}

}  // namespace
