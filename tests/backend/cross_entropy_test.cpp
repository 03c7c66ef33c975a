// Cross-entropy against finite differences, and a cut vocabulary. Each piece against its definition: rows_law_test.cpp.
#include <weft/backend/cpu/cross_entropy.hpp>

#include "kernel_testing.hpp"

using namespace weft_test;

namespace {

std::vector<std::int32_t> targets_for(int64 rows, int64 vocab) {
  generator source(7);
  std::vector<std::int32_t> out;
  for (int64 i = 0; i < rows; ++i)
    out.push_back(i % 5 == 3 ? -100 : static_cast<std::int32_t>(source.bits() % static_cast<std::uint64_t>(vocab)));
  return out;
}

/// Sum over rows of g * (log of the sum of exponentials - (1-ls) * target logit - ls * mean logit), in double from the
/// definition.
double loss(int64 rows, int64 n, const doubles& x, const std::vector<std::int32_t>& targets, const doubles& g,
            double ls) {
  double total = 0;
  for (int64 r = 0; r < rows; ++r) {
    if (targets[r] < 0) continue;
    double exps = 0, sum = 0;
    for (int64 i = 0; i < n; ++i) exps += std::exp(x[r * n + i]), sum += x[r * n + i];
    total += g[r] * (std::log(exps) - (1 - ls) * x[r * n + targets[r]] - ls * sum / static_cast<double>(n));
  }
  return total;
}

}  // namespace

TEST_CASE("cross-entropy backward agrees with finite differences, label smoothing and ignored rows included") {
  const int64 rows = 6, n = 19;
  const auto x = numbers<double>(rows * n, 4), g = numbers<double>(rows, 5);
  const auto targets = targets_for(rows, n);
  team t;
  std::vector<double> m(rows), exps(rows), logit(rows), log_sum(rows), dx(x.size());
  weft::cpu::row_max(t, rows, n, x.data(), m.data());
  weft::cpu::row_sums(t, rows, n, x.data(), 0, targets.data(), m.data(), exps.data(), logit.data());
  for (int64 r = 0; r < rows; ++r) log_sum[r] = std::log(exps[r]);
  weft::cpu::cross_entropy_backward(t, rows, n, x.data(), 0, targets.data(), m.data(), log_sum.data(), g.data(), 0.2, n,
                                    dx.data());
  doubles slope;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto up = x, down = x;
    up[i] += 1e-5, down[i] -= 1e-5;
    slope.push_back((loss(rows, n, up, targets, g, 0.2) - loss(rows, n, down, targets, g, 0.2)) / 2e-5);
  }
  check_close(dx, slope, 1e-8, 1e-8);  // 1e-10 of truncation, and 1e-14 / 1e-5 of rounding in a loss of about 20
}

TEST_CASE("a vocabulary in two slices gives the bits of the gradient of the whole") {
  const int64 rows = 4, n = 64;
  const auto x = numbers<float>(rows * n, 6);
  const auto targets = targets_for(rows, n);
  const auto m = numbers<float>(rows, 8, 2, 3), log_sum = numbers<float>(rows, 10, 1, 2), g = numbers<float>(rows, 9);
  team t;
  std::vector<float> whole(x.size());
  weft::cpu::cross_entropy_backward(t, rows, n, x.data(), 0, targets.data(), m.data(), log_sum.data(), g.data(), 0.1, n,
                                    whole.data());
  for (const int64 begin : {0, 32}) {
    std::vector<float> part, got(rows * 32), want;
    for (int64 r = 0; r < rows; ++r)
      for (int64 i = 0; i < 32; ++i) part.push_back(x[r * n + begin + i]), want.push_back(whole[r * n + begin + i]);
    weft::cpu::cross_entropy_backward(t, rows, 32, part.data(), begin, targets.data(), m.data(), log_sum.data(),
                                      g.data(), 0.1, n, got.data());
    CHECK(same_bits(got, want));
  }
}
