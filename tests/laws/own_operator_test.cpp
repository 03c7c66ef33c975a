// weft/testing/laws.hpp as a user takes it: a right formula passes, and each kind of wrong one is told.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/op/formula.hpp>
#include <weft/op/view.hpp>
#include <weft/testing/laws.hpp>

#include "sample.hpp"

namespace {
using namespace weft;

template <int Wrong>
struct squared_error {
  static constexpr std::string_view name = "squared_error";
  double forward(double a, double b) const { return (a - b) * (a - b); }
  std::array<double, 2> vjp(double dy, double a, double b) const {
    const double g = 2 * dy * (a - b);
    return {g, Wrong == 1 ? g : -g};  // 1: a sign
  }
};
using rows = tensor<double, dims<batch, hidden>, shard<batch, dp>>;
using row = tensor<double, dims<hidden>, shard<hidden, tp>>;
const testing::options sample{.every = weft_test::sample_stride()};

TEST_CASE("a right formula passes") {
  testing::check_gradients<rows, tensor<double, dims<hidden>>>(
      "squared error", [](const auto& a, const auto& b) { return elementwise(squared_error<0>{}, a, b); }, sample);
}

TEST_CASE("a wrong gradient, a missing one, and a value that depends on the sharding are told") {
  const auto sign = [] {
    testing::check_gradients<rows, tensor<double, dims<hidden>>>(
        "sign", [](const auto& a, const auto& b) { return elementwise(squared_error<1>{}, a, b); }, sample);
  };
  CHECK_THROWS_WITH_AS(sign(), doctest::Contains("one rank's gradient and differences"), failure);
  const auto none = [] {
    testing::check_gradients<rows>(
        "none", [](const auto& a) { return detach(a); }, sample);
  };
  CHECK_THROWS_AS(none(), failure);
  if (weft_test::sample_stride() > 1) return;  // what follows needs a mesh of several ranks
  const auto by_rank = [] {
    testing::check_gradients<row>(
        "by rank", [](const auto& a) { return a * double(1 + untyped(a).ctx->template index<tp>().here()); });
  };
  CHECK_THROWS_WITH_AS(by_rank(), doctest::Contains("all ranks' value and one rank's"), failure);
}

}  // namespace
