// Finite differences for maximum, minimum, where and detach, in placements of every kind.
#include <doctest/doctest.h>

#include <weft/op/select.hpp>
#include <weft/op/view.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using x3 = dims<batch, seq, hidden>;

TEST_CASE("maximum and minimum") {
  // Inputs are 0.25 to 1.25 in size; a tenth of one is never within a step of another, where there is a kink.
  const auto larger = [](const auto& a, const auto& b) { return maximum(a, b * 0.1); };
  const auto smaller = [](const auto& a, const auto& b) { return minimum(a, b * 0.1); };
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>, real<dims<hidden>, shard<hidden, tp>>>("maximum", larger);
  gradients<real<x3, replicate<dp>>, real<dims<seq>>>("minimum, invariant column", smaller);
}

TEST_CASE("where, of whole values, slices and pending sums") {
  const auto positive = [](const auto& by, const auto& a, const auto& b) { return where(by > 0.0, a * by, b); };
  gradients<real<dims<batch>, shard<batch, dp>>, real<x3, shard<batch, dp>>, real<dims<hidden>>>("where", positive);
  gradients<real<dims<batch>>, real<x3, partial<tp>>, real<x3, partial<tp>>>("where, of pending sums", positive);
  gradients<real<dims<seq>, shard<seq, dp>>, real<dims<hidden>, partial<tp>>, real<dims<hidden>, partial<tp>>>(
      "where, by a slice of another axis", positive);
}

TEST_CASE("a detached term is a constant, whatever its placement") {
  // The detached terms cancel, so the differences see 2 x alone, as the gradient should.
  const auto f = [](const auto& x) { return x * 2.0 + (detach(x) - detach(x * 1.0)); };
  gradients<real<x3, partial<tp>, shard<batch, dp>>>("detach, pending and sharded", f);
  gradients<real<x3, replicate<tp>>>("detach, replicate", f);
}

}  // namespace
