// The gated unit against its definition and finite differences of it.
#include <weft/backend/cpu/swiglu.hpp>

#include "kernel_testing.hpp"

using namespace testing;

namespace {
double unit(double g, double u) { return g / (1 + std::exp(-g)) * u; }
}  // namespace

TEST_CASE_TEMPLATE("swiglu and its gradients", T, double, float, bf16, fp16) {
  for (const int64 n : {1, 33, 20011}) {
    const auto gate = numbers<T>(n, 1, -10, 10), up = numbers<T>(n, 2), dy = numbers<T>(n, 3);
    const auto old_gate = numbers<T>(n, 4), old_up = numbers<T>(n, 5);
    doubles y, dgate, dup, dgate_added, dup_added;
    for (int64 i = 0; i < n; ++i) {
      const double g = gate[i], u = up[i], d = dy[i], h = 1e-5;
      y.push_back(unit(g, u));
      dgate.push_back(d * (unit(g + h, u) - unit(g - h, u)) / (2 * h));
      dup.push_back(d * unit(g, 1));
      dgate_added.push_back(dgate.back() + static_cast<double>(old_gate[i]));
      dup_added.push_back(dup.back() + static_cast<double>(old_up[i]));
    }
    on_every_isa([&](team& t) {
      std::vector<T> got(gate.size()), a(gate.size()), b(gate.size()), aa = old_gate, bb = old_up;
      // About ten roundings in the accumulate type; the finite difference is good to 1e-9 of values up to 20.
      const double relative = rounding<T> + 10 * sum_rounding<T>, absolute = 10 * sum_rounding<T>;
      weft::cpu::swiglu(t, n, gate.data(), up.data(), got.data());
      check_close(got, y, relative, absolute);
      weft::cpu::swiglu_backward(t, n, gate.data(), up.data(), dy.data(), a.data(), false, b.data(), false);
      check_close(a, dgate, relative, 16 * absolute + 1e-8);  // silu (1 - s) cancels near its minimum
      check_close(b, dup, relative, absolute);
      weft::cpu::swiglu_backward(t, n, gate.data(), up.data(), dy.data(), aa.data(), true, bb.data(), true);
      check_close(aa, dgate_added, relative, 16 * absolute + 1e-8);
      check_close(bb, dup_added, relative, 2 * absolute);
      std::vector<T> in_gate = gate, in_up = up;
      weft::cpu::swiglu_backward(t, n, in_gate.data(), in_up.data(), dy.data(), in_gate.data(), false, in_up.data(),
                                 false);
      CHECK(same_bits(in_gate, a));
      CHECK(same_bits(in_up, b));
      got.insert(got.end(), a.begin(), a.end());
      return got;
    });
  }
}
