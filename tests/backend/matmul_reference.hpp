// A random matrix product with all its traps (odd sizes, gaps between rows, transposes, batches, accumulation), and its
// check against a triple loop in double, for kernels that no backend has.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/backend/cpu/matmul.hpp>

namespace weft::test {

struct random {
  std::uint32_t state;
  std::uint32_t next() { return (state = state * 1664525u + 1013904223u) >> 8; }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(next() % static_cast<std::uint32_t>(n)); }
  float uniform() { return static_cast<float>(next()) * 0x1p-23f - 1.0f; }
};

/// Half a unit in the last place of T, relative.
template <class T>
constexpr double half_ulp = dtype_of<T> == dtype::f64   ? 0x1p-53
                            : dtype_of<T> == dtype::f32 ? 0x1p-24
                            : dtype_of<T> == dtype::f16 ? 0x1p-11
                                                        : 0x1p-8;

template <class T, class Out>
struct matmul_case {
  matmul_shape shape;
  strides a, b, c;
  bool accumulate = false;
  bool integers = false;  // small integers: every sum is exact in float, so the result must be right to the last bit
  std::uint32_t seed = 0;

  static strides strides_of(random& r, std::int64_t rows, std::int64_t columns, int kind) {
    const std::int64_t gap = r.below(2) * r.below(5);
    if (kind == 0) return {columns + gap, 1, rows * (columns + gap) + r.below(3)};
    if (kind == 1) return {1, rows + gap, columns * (rows + gap) + r.below(3)};
    return {2 * columns + gap, 2, rows * (2 * columns + gap)};  // neither is contiguous
  }

  static matmul_case draw(random& r) {
    matmul_case made;
    const std::int64_t limits[] = {4, 20, 70, 140};
    made.shape = {r.below(4) == 0 ? r.below(4) : 1, r.below(limits[r.below(4)]), r.below(limits[r.below(4)]),
                  r.below(limits[r.below(4)])};
    if (r.below(12) == 0) made.shape.m = 1, made.shape.n = 1000 + r.below(200);  // sampling
    if (r.below(12) == 0) made.shape.k = 800 + r.below(800);                     // cut along k
    if (r.below(40) == 0) made.shape = {1, 17, 40, 2000 + r.below(2500)};        // long k
    if (r.below(40) == 0) made.shape = {1, 19, 4096 + r.below(70), 9};           // several groups of columns
    made.a = strides_of(r, made.shape.m, made.shape.k, r.below(8) == 0 ? 2 : static_cast<int>(r.below(2)));
    made.b = strides_of(r, made.shape.k, made.shape.n, r.below(8) == 0 ? 2 : static_cast<int>(r.below(2)));
    if (r.below(4) == 0) made.b.batch = 0;
    made.c = strides_of(r, made.shape.m, made.shape.n, 0);
    made.accumulate = r.below(2) == 1;
    made.integers = r.below(2) == 1;
    made.seed = r.next();
    return made;
  }

  std::string describe() const {
    const auto text = [](strides s) {
      return " (" + std::to_string(s.row) + ", " + std::to_string(s.column) + ", " + std::to_string(s.batch) + ")";
    };
    return "batch " + std::to_string(shape.batch) + " m " + std::to_string(shape.m) + " n " + std::to_string(shape.n) +
           " k " + std::to_string(shape.k) + " a" + text(a) + " b" + text(b) + " c" + text(c) +
           (accumulate ? " accumulate" : "") + (integers ? " integers" : "");
  }

  static std::size_t extent(strides s, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
    if (batch == 0 || rows == 0 || columns == 0) return 0;
    return static_cast<std::size_t>((batch - 1) * s.batch + (rows - 1) * s.row + (columns - 1) * s.column + 1);
  }

  /// Runs `product(shape, a, sa, b, sb, c, sc, accumulate)` and compares. Operands end exactly at their last element,
  /// and what lies between them is NaN, so that reading too far is seen; gaps in c must keep their value.
  template <class Product>
  void check(Product&& product) const {
    const T trap = T(std::nanf(""));
    std::vector<T> x(extent(a, shape.batch, shape.m, shape.k), trap), y(extent(b, shape.batch, shape.k, shape.n), trap);
    std::vector<Out> z(extent(c, shape.batch, shape.m, shape.n), Out(77.0f));
    random r{seed};
    const auto each = [](std::int64_t batch, std::int64_t rows, std::int64_t columns, strides s, auto&& f) {
      for (std::int64_t q = 0; q < batch; ++q)
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j) f(q, i, j, q * s.batch + i * s.row + j * s.column);
    };
    const auto draw_value = [&] { return integers ? static_cast<float>(r.below(5) - 2) : r.uniform(); };
    each(shape.batch, shape.m, shape.k, a, [&](auto, auto, auto, std::int64_t at) { x[at] = T(draw_value()); });
    each(shape.batch, shape.k, shape.n, b, [&](auto, auto, auto, std::int64_t at) { y[at] = T(draw_value()); });
    std::vector<Out> wanted = z;
    std::vector<double> exact(z.size()), size(z.size());
    each(shape.batch, shape.m, shape.n, c, [&](std::int64_t q, std::int64_t i, std::int64_t j, std::int64_t at) {
      z[at] = Out(draw_value());
      double sum = accumulate ? static_cast<double>(z[at]) : 0.0, magnitude = std::abs(sum);
      for (std::int64_t k = 0; k < shape.k; ++k) {
        const double term = static_cast<double>(x[q * a.batch + i * a.row + k * a.column]) *
                            static_cast<double>(y[q * b.batch + k * b.row + j * b.column]);
        sum += term;
        magnitude += std::abs(term);
      }
      exact[at] = sum;
      size[at] = magnitude;
    });
    product(shape, x.data(), a, y.data(), b, z.data(), c, accumulate);
    // Bound of a sum of k products in any order: (k + 1) roundings of the accumulator, each at most half a unit of the
    // sum of magnitudes; then one rounding to Out. (vdpbf16ps flushes subnormals; 1e-30 covers that.)
    const double step = half_ulp<accumulate_t<T>> * static_cast<double>(shape.k + 2);
    std::int64_t wrong = 0;
    each(shape.batch, shape.m, shape.n, c, [&](auto, auto, auto, std::int64_t at) {
      const double got = static_cast<double>(z[at]), sums = step * size[at];
      const double rounding = half_ulp<Out> * (std::abs(exact[at]) + sums) + (sizeof(Out) == 2 ? 0x1p-25 : 0.0);
      const bool right = integers ? got == static_cast<double>(Out(static_cast<float>(exact[at])))
                                  : std::abs(got - exact[at]) <= sums + rounding + 1e-30;
      if (!right) ++wrong;
      wanted[at] = z[at];
    });
    CHECK(wrong == 0);
    std::int64_t touched = 0;
    for (std::size_t i = 0; i < z.size(); ++i) touched += static_cast<double>(z[i]) != static_cast<double>(wanted[i]);
    CHECK(touched == 0);
  }
};

}  // namespace weft::test
