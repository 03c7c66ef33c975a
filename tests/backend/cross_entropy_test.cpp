// Cross-entropy in pieces: each piece against its definition, the whole against finite differences, a cut vocabulary.
#include <weft/backend/cpu/cross_entropy.hpp>

#include "kernel_testing.hpp"

using namespace testing;

namespace {

std::vector<std::int32_t> targets_for(int64 rows, int64 vocab) {
  generator source(7);
  std::vector<std::int32_t> out;
  for (int64 i = 0; i < rows; ++i)
    out.push_back(i % 5 == 3 ? -100 : static_cast<std::int32_t>(source.bits() % static_cast<std::uint64_t>(vocab)));
  return out;
}

/// Sum over rows of g * (lse - (1-ls) * target logit - ls * mean logit), in double from the definition.
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

TEST_CASE_TEMPLATE("pieces of cross-entropy, for a slice of the vocabulary", T, double, float, bf16, fp16) {
  using A = weft::accumulate_t<T>;
  for (const int64 n : {1, 16, 65, 3001}) {
    const int64 rows = 11, begin = 40, vocab = 2 * n + 80;
    const auto x = numbers<T>(rows * n, 1, -8, 8);
    auto targets = targets_for(rows, vocab);
    targets[0] = static_cast<std::int32_t>(begin), targets[1] = static_cast<std::int32_t>(begin + n - 1);
    targets[2] = static_cast<std::int32_t>(begin - 1), targets[4] = static_cast<std::int32_t>(begin + n);
    const auto lse = numbers<A>(rows, 2, 8, 9), g = numbers<A>(rows, 3);
    doubles m, exps, logit, sums, dx;
    const double ls = 0.1;
    for (int64 r = 0; r < rows; ++r) {
      double largest = -INFINITY, e = 0, s = 0;
      for (int64 i = 0; i < n; ++i) largest = std::fmax(largest, static_cast<double>(x[r * n + i]));
      for (int64 i = 0; i < n; ++i) {
        const double v = x[r * n + i];
        e += std::exp(v - largest), s += v;
        const double hot = begin + i == targets[r] ? 1 - ls : 0;
        dx.push_back(targets[r] < 0 ? 0 : (std::exp(v - lse[r]) - hot - ls / static_cast<double>(vocab)) * g[r]);
      }
      const int64 column = targets[r] - begin;
      m.push_back(largest), exps.push_back(e), sums.push_back(s);
      logit.push_back(targets[r] >= 0 && column >= 0 && column < n ? static_cast<double>(x[r * n + column]) : 0);
    }
    on_every_isa([&](team& t) {
      std::vector<A> gm(rows), ge(rows), gl(rows), gs(rows), ge2(rows), gl2(rows);
      weft::cpu::row_max(t, rows, n, x.data(), gm.data());
      check_close(gm, m, 0, 1e-300);
      weft::cpu::row_sums(t, rows, n, x.data(), begin, targets.data(), gm.data(), ge.data(), gl.data(), gs.data());
      // Differences up to 16 rounded to 2^-24 make exps good to 16 * 2^-24 each; so does adding 3001 of one sign by 64
      // lanes.
      check_close(ge, exps, 100 * sum_rounding<T>, 0);
      check_close(gl, logit, 0, 1e-300);
      check_close(gs, sums, 0, 8 * 100 * static_cast<double>(n) * sum_rounding<T>);  // terms up to 8 that cancel
      weft::cpu::row_sums(t, rows, n, x.data(), begin, targets.data(), gm.data(), ge2.data(), gl2.data());
      CHECK(same_bits(ge, ge2));
      std::vector<T> got = x, apart(x.size());
      weft::cpu::cross_entropy_backward(t, rows, n, x.data(), begin, targets.data(), lse.data(), g.data(), ls, vocab,
                                        apart.data());
      weft::cpu::cross_entropy_backward(t, rows, n, got.data(), begin, targets.data(), lse.data(), g.data(), ls, vocab,
                                        got.data());
      CHECK(same_bits(got, apart));
      // exp(v - lse) is good to 32 * 2^-24; subtracting the target's 0.9 leaves that absolutely; fp16 subnormals:
      // 2^-25.
      check_close(got, dx, rounding<T> + 40 * sum_rounding<T>, 64 * sum_rounding<T> + (sizeof(T) == 2 ? 0x1p-25 : 0));
      return got;
    });
  }
}

TEST_CASE("cross-entropy backward agrees with finite differences, label smoothing and ignored rows included") {
  const int64 rows = 6, n = 19;
  const auto x = numbers<double>(rows * n, 4), g = numbers<double>(rows, 5);
  const auto targets = targets_for(rows, n);
  team t;
  std::vector<double> m(rows), exps(rows), logit(rows), lse(rows), dx(x.size());
  weft::cpu::row_max(t, rows, n, x.data(), m.data());
  weft::cpu::row_sums(t, rows, n, x.data(), 0, targets.data(), m.data(), exps.data(), logit.data());
  for (int64 r = 0; r < rows; ++r) lse[r] = m[r] + std::log(exps[r]);
  weft::cpu::cross_entropy_backward(t, rows, n, x.data(), 0, targets.data(), lse.data(), g.data(), 0.2, n, dx.data());
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
  const auto lse = numbers<float>(rows, 8, 4, 5), g = numbers<float>(rows, 9);
  team t;
  std::vector<float> whole(x.size());
  weft::cpu::cross_entropy_backward(t, rows, n, x.data(), 0, targets.data(), lse.data(), g.data(), 0.1, n,
                                    whole.data());
  for (const int64 begin : {0, 32}) {
    std::vector<float> part, got(rows * 32), want;
    for (int64 r = 0; r < rows; ++r)
      for (int64 i = 0; i < 32; ++i) part.push_back(x[r * n + begin + i]), want.push_back(whole[r * n + begin + i]);
    weft::cpu::cross_entropy_backward(t, rows, 32, part.data(), begin, targets.data(), lse.data(), g.data(), 0.1, n,
                                      got.data());
    CHECK(same_bits(got, want));
  }
}
