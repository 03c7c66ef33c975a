// Finite differences for sums, differences, products and quotients broadcast by name, and for functions of one tensor.
#include <doctest/doctest.h>

#include <weft/op/elementwise.hpp>
#include <weft/op/scalar.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using x3 = dims<batch, seq, hidden>;

TEST_CASE("a + b and a - b, broadcast by name") {
  const auto plus = [](const auto& a, const auto& b) { return a + b; };
  const auto minus = [](const auto& a, const auto& b) { return a - b; };
  gradients<real<x3>, real<dims<hidden>>>("plus a row", plus);
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>, real<dims<hidden>, shard<hidden, tp>>>("plus a row, sharded",
                                                                                                  plus);
  gradients<real<dims<seq>, shard<seq, dp>>, real<dims<hidden>>>("outer sum", plus);
  gradients<real<x3, partial<tp>>, real<dims<seq, hidden>, partial<tp>>>("two pending sums", plus);
  gradients<real<x3, replicate<dp>>, real<dims<hidden, batch>>>("replicate and invariant, other order", minus);
  gradients<real<x3, shard<batch, dp, tp>>, real<dims<seq, batch>, shard<batch, dp, tp>>>("over two axes, other order",
                                                                                          minus);
  gradients<real<dims<>>, real<dims<seq>, shard<seq, tp>>>("a scalar minus a slice", minus);
}

TEST_CASE("a * b and a / b, broadcast by name") {
  const auto times = [](const auto& a, const auto& b) { return a * b; };
  const auto over = [](const auto& a, const auto& b) { return a / b; };
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>, real<dims<hidden>, shard<hidden, tp>>>(
      "times a row, sharded", times);
  gradients<real<x3, partial<tp>>, real<dims<hidden, seq>, replicate<dp>>>("a pending sum times whole", times);
  gradients<real<dims<seq>, partial<dp>>, real<dims<hidden>, partial<tp>>>("pending on one axis each", times);
  gradients<real<dims<hidden, batch>>, real<x3, shard<seq, tp>>>("other order, broadcast first", times);
  gradients<real<x3, partial<dp>>, real<dims<batch>>>("a pending sum over a column", over);
  gradients<real<dims<hidden>, shard<hidden, dp>>, real<dims<seq, hidden>, shard<hidden, dp>, shard<seq, tp>>>(
      "over a larger one", over);
  gradients<real<dims<hidden>, replicate<dp>>, real<dims<hidden, seq>, shard<seq, tp, dp>>>(
      "an axis named first by the other side", times);
  gradients<real<x3, shard<seq, tp>>>("a tensor times and over itself", [](const auto& a) { return a * a + a / a; });
}

TEST_CASE("functions of one tensor") {
  const options any{}, above{.positive = true};
  using x = real<dims<batch, hidden>, shard<batch, dp>, replicate<tp>>;
#define WEFT_LAW(function, which) \
  gradients<x>(                   \
      #function, [](const auto& a) { return function(a); }, which)
  WEFT_LAW(weft::exp, any);
  WEFT_LAW(weft::log, above);
  WEFT_LAW(weft::sqrt, above);
  WEFT_LAW(weft::rsqrt, above);
  WEFT_LAW(weft::reciprocal, any);
  WEFT_LAW(weft::square, any);
  WEFT_LAW(weft::abs, any);
  WEFT_LAW(weft::tanh, any);
  WEFT_LAW(weft::sigmoid, any);
  WEFT_LAW(weft::relu, any);
  WEFT_LAW(weft::silu, any);
  WEFT_LAW(weft::gelu, any);
  WEFT_LAW(weft::gelu_exact, any);
#undef WEFT_LAW
}

TEST_CASE("a tensor and a number") {
  const auto plus = [](const auto& a) { return square(a + 0.5); };
  const auto minus = [](const auto& a) { return square(2 - a); };
  const auto over = [](const auto& a) { return square(a / 4); };
  const auto under = [](const auto& a) { return 2 / a; };
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>>("a half more", plus);
  gradients<real<x3, shard<seq, tp>>>("what two lacks", minus);
  gradients<real<x3, shard<seq, dp>>>("a quarter", over);
  gradients<real<x3, shard<hidden, tp>>>("two over it", under, {.positive = true});
}

TEST_CASE("scale is linear, so pending sums pass") {
  gradients<real<x3, partial<tp>, shard<seq, dp>>>("scale", [](const auto& a) { return 0.5 * a - a * 3.0; });
}

}  // namespace
