// Finite differences for sums, means and softmax.
#include <doctest/doctest.h>

#include <weft/op/reduce.hpp>
#include <weft/op/softmax.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using x3 = dims<batch, seq, hidden>;

TEST_CASE("sums and means over any dimensions") {
  gradients<real<x3>>("sum of the middle", [](const auto& x) { return sum<seq>(x); });
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>>("sum of a sharded one",
                                                           [](const auto& x) { return sum<hidden>(x); });
  gradients<real<x3, shard<seq, dp, tp>>>("sum of one over two axes", [](const auto& x) { return sum<seq, batch>(x); });
  gradients<real<x3, partial<tp>, shard<hidden, dp>>>("sum of a pending one",
                                                      [](const auto& x) { return sum<batch>(x); });
  gradients<real<x3, replicate<tp>>>("sum of all", [](const auto& x) { return sum(x); });
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>>("mean of all", [](const auto& x) { return mean(x); });
  gradients<real<x3, shard<seq, tp>>>("mean of a sharded one", [](const auto& x) { return mean<seq>(x); });
  gradients<real<dims<>>>("sum of a scalar", [](const auto& x) { return sum(x); });
}

TEST_CASE("softmax along the last dimension or another") {
  const options several{.base = {{batch{}, 3}, {seq{}, 5}, {hidden{}, 4}}};  // of one element the gradient is zero
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>>(
      "softmax, last", [](const auto& x) { return softmax<hidden>(x); }, several);
  gradients<real<x3, shard<hidden, tp>, replicate<dp>>>(
      "softmax, middle", [](const auto& x) { return softmax<seq>(x); }, several);
  gradients<real<x3, shard<hidden, tp, dp>>>(
      "softmax, first", [](const auto& x) { return softmax<batch>(x); }, several);
}

}  // namespace
