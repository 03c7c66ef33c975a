// Finite differences for the cross-entropy: whole and vocabulary-parallel, tokens sharded, smoothed, with ignored rows.
// One rank's value, to which all are compared, is compared with the formula here.
#include <doctest/doctest.h>

#include <weft/op/cross_entropy.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using logits = dims<batch, seq, vocab>;
template <class... Ps>
using targets = tensor<std::int32_t, dims<batch, seq>, Ps...>;

/// Every third target is ignored.
template <class Y, class X>
Y targets_for(const X& x) {
  const auto size = [&]<class D>(D) { return x.template global_extent<D>(); };
  const std::int64_t v = size(vocab{});
  return generate<Y>(*untyped(x).ctx, {size(batch{}), size(seq{})},
                     [=](std::int64_t i) { return i % 3 == 1 ? -1 : (5 * i + 2) % v; });
}
template <class Y>
auto mean_loss(double smoothing) {
  return [smoothing](const auto& x) { return cross_entropy(x, targets_for<Y>(x), {smoothing}).sum; };
}

TEST_CASE("cross_entropy in every placement") {
  const options tokens{.base = {{seq{}, 3}, {vocab{}, 5}}};
  gradients<real<logits>>("whole", mean_loss<targets<>>(0), tokens);
  gradients<real<logits>>("whole, smoothed", mean_loss<targets<>>(0.1), tokens);
  gradients<real<logits, shard<batch, dp>, shard<vocab, tp>>>("vocabulary parallel",
                                                              mean_loss<targets<shard<batch, dp>>>(0), tokens);
  gradients<real<logits, shard<batch, dp>, shard<vocab, tp>>>("vocabulary parallel, smoothed",
                                                              mean_loss<targets<shard<batch, dp>>>(0.2), tokens);
  gradients<real<logits, shard<vocab, tp, dp>>>("vocabulary over two axes", mean_loss<targets<>>(0.1), tokens);
  gradients<real<logits, shard<seq, tp>, replicate<dp>>>("sequence sharded", mean_loss<targets<shard<seq, tp>>>(0.1),
                                                         tokens);
}

TEST_CASE(
    "bug: label smoothing spreads over the local vocabulary (cross_entropy equals its formula, and counts its "
    "tokens)") {
  for (const degrees& mesh : meshes) {
    on_ranks(mesh, [](context& ctx) {
      constexpr std::int64_t n = 24, s = 2, v = 48;
      const double smoothing = 0.15;
      const auto f = [](std::int64_t i) { return std::sin(double(i) * 1.7) * 3; };
      const auto x = generate<real<logits, shard<batch, dp>, shard<vocab, tp>>>(ctx, {n, s, v}, f);
      const auto y = targets_for<targets<shard<batch, dp>>>(x);
      const auto out = cross_entropy(x, y, {smoothing});
      const double sum = item(laws::detail::finished(out.sum)), count = item(laws::detail::finished(out.count));
      double expected = 0;
      for (std::int64_t row = 0; row < n * s; ++row) {
        if (row % 3 == 1) continue;
        double total = 0, mean_logit = 0;
        for (std::int64_t j = 0; j < v; ++j)
          total += std::exp(f(row * v + j)), mean_logit += f(row * v + j) / double(v);
        // -sum_j q_j log p_j, with q_j = smoothing / v everywhere, and 1 - smoothing more at the target
        expected += std::log(total) - (1 - smoothing) * f(row * v + (5 * row + 2) % v) - smoothing * mean_logit;
      }
      require(count == 32, "count is ", count);
      require(std::abs(sum - expected) < 1e-12 * expected * double(n * s), "sum is ", sum, ", not ",
              expected);  // order of sums
    });
  }
}

}  // namespace
