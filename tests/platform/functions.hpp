// Whether the kernels' elementary functions and conversions are right, on the instruction set in use: they are the
// first to suffer from flags and compilers that reorder additions or take NaN for impossible.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include <weft/backend/cpu.hpp>

namespace platform {

/// `what` is off by more than `within`: says so, and counts it.
inline int fault_unless_near(const char* what, double is, double should, double within) {
  if (std::fabs(is - should) <= within) return 0;
  std::printf("FAULT: %s is %.9g, not %.9g\n", what, is, should);
  return 1;
}

/// The greatest error of F over [low, high], relative to 1 or to the value.
template <weft::unary F, class Reference>
int compare(const char* name, double low, double high, Reference reference) {
  constexpr int n = 1027;  // no vector's width divides it
  static float x[n], y[n];
  for (int i = 0; i < n; ++i) x[i] = static_cast<float>(low + (high - low) * i / (n - 1));
  weft::cpu::team alone;
  weft::cpu_backend::apply<F>(alone, n, x, y);
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    const double should = reference(static_cast<double>(x[i]));
    worst = std::max(worst, std::fabs(static_cast<double>(y[i]) - should) / std::max(1.0, std::fabs(should)));
  }
  return fault_unless_near(name, worst, 0, 1e-6);
}

/// The number of faults; each is printed.
inline int function_faults() {
  using weft::unary;
  int faults = compare<unary::exp>("exp's error", -80, 80, [](double x) { return std::exp(x); });
  faults += compare<unary::log>("log's error", 1e-30, 1e3, [](double x) { return std::log(x); });
  faults += compare<unary::tanh>("tanh's error", -9, 9, [](double x) { return std::tanh(x); });
  faults += compare<unary::silu>("silu's error", -60, 60, [](double x) { return x / (1 + std::exp(-x)); });

  constexpr int n = 33;
  static float none[n];
  static weft::bf16 narrow[n];
  for (float& x : none) x = std::numeric_limits<float>::quiet_NaN();
  weft::cpu::team alone;
  weft::cpu_backend::convert(alone, n, none, narrow, false);
  int lost = 0;
  for (const weft::bf16 x : narrow) lost += (x.bits & 0x7fff) <= 0x7f80;
  faults += fault_unless_near("the number of NaN that bf16 lost", lost, 0, 0);
  const auto seen = weft::cpu_backend::statistics(alone, n, none).not_finite;
  return faults + fault_unless_near("the number of NaN that statistics see", static_cast<double>(seen), n, 0);
}

}  // namespace platform
