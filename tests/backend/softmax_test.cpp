// Softmax and its backward against the definition in double.
#include <weft/backend/cpu/softmax.hpp>

#include "kernel_testing.hpp"

using namespace testing;

namespace {

struct shape {
  int64 outer, n, inner;
};
constexpr shape shapes[] = {{1, 1, 1}, {3, 7, 1}, {5, 64, 1}, {300, 129, 1}, {2, 5, 3}, {3, 4, 50}, {2, 1000, 1}};

doubles exact(const shape& s, const doubles& x) {
  doubles y(x.size());
  for (int64 o = 0; o < s.outer; ++o)
    for (int64 j = 0; j < s.inner; ++j) {
      double largest = -INFINITY, total = 0;
      const auto at = [&](int64 i) { return static_cast<std::size_t>((o * s.n + i) * s.inner + j); };
      for (int64 i = 0; i < s.n; ++i) largest = std::fmax(largest, x[at(i)]);
      for (int64 i = 0; i < s.n; ++i) total += std::exp(x[at(i)] - largest);
      for (int64 i = 0; i < s.n; ++i) y[at(i)] = std::exp(x[at(i)] - largest) / total;
    }
  return y;
}

}  // namespace

TEST_CASE_TEMPLATE("softmax", T, double, float, bf16, fp16) {
  for (const shape& s : shapes) {
    const int64 size = s.outer * s.n * s.inner;
    const auto x = numbers<T>(size, 1, -20, 20);
    const doubles y = exact(s, widened(x));
    on_every_isa([&](team& t) {
      std::vector<T> got(x.size());
      weft::cpu::softmax(t, s.outer, s.n, s.inner, x.data(), got.data());
      // x - max is rounded to 2^-24 of up to 40, which exp turns into a relative 40 * 2^-24; the sum adds a few more.
      // Small results of fp16 are subnormal: absolute 2^-25.
      check_close(got, y, rounding<T> + 64 * sum_rounding<T>, sizeof(T) == 2 ? 0x1p-25 : 1e-37);
      std::vector<T> in_place = x;
      weft::cpu::softmax(t, s.outer, s.n, s.inner, in_place.data(), in_place.data());
      CHECK(same_bits(in_place, got));
      return got;
    });
  }
}

TEST_CASE("softmax of large and infinite logits") {
  const std::vector<float> x = {1e30f, -INFINITY, 1e30f, -1e30f};
  on_every_isa([&](team& t) {
    std::vector<float> y(4);
    weft::cpu::softmax(t, 1, 4, 1, x.data(), y.data());
    CHECK(y == std::vector<float>{0.5f, 0, 0.5f, 0});
    return y;
  });
}

TEST_CASE_TEMPLATE("softmax backward", T, double, float, bf16, fp16) {
  for (const shape& s : shapes) {
    const int64 size = s.outer * s.n * s.inner;
    const auto y = numbers<T>(size, 2, 0, 1), dy = numbers<T>(size, 3), old = numbers<T>(size, 4);
    doubles dx(y.size()), added(y.size());
    for (int64 o = 0; o < s.outer; ++o)
      for (int64 j = 0; j < s.inner; ++j) {
        double dot = 0;
        const auto at = [&](int64 i) { return static_cast<std::size_t>((o * s.n + i) * s.inner + j); };
        for (int64 i = 0; i < s.n; ++i) dot += static_cast<double>(y[at(i)]) * static_cast<double>(dy[at(i)]);
        for (int64 i = 0; i < s.n; ++i) {
          dx[at(i)] = static_cast<double>(y[at(i)]) * (static_cast<double>(dy[at(i)]) - dot);
          added[at(i)] = dx[at(i)] + static_cast<double>(old[at(i)]);
        }
      }
    on_every_isa([&](team& t) {
      std::vector<T> got(y.size()), sum = old;
      weft::cpu::softmax_backward(t, s.outer, s.n, s.inner, y.data(), dy.data(), got.data(), false);
      weft::cpu::softmax_backward(t, s.outer, s.n, s.inner, y.data(), dy.data(), sum.data(), true);
      // dot adds n terms of at most 2: its error is below 2 n 2^-24, n <= 1000.
      const double absolute = 4 * static_cast<double>(s.n) * sum_rounding<T>;
      check_close(got, dx, rounding<T> + 4 * sum_rounding<T>, absolute);
      check_close(sum, added, rounding<T> + 4 * sum_rounding<T>, absolute);
      return got;
    });
  }
}

TEST_CASE("softmax backward agrees with finite differences") {
  const shape s{2, 9, 3};
  const auto x = numbers<double>(54, 5), dy = numbers<double>(54, 6);
  team t;
  std::vector<double> y(54), dx(54);
  weft::cpu::softmax(t, s.outer, s.n, s.inner, x.data(), y.data());
  weft::cpu::softmax_backward(t, s.outer, s.n, s.inner, y.data(), dy.data(), dx.data(), false);
  doubles slope;
  for (std::size_t i = 0; i < 54; ++i) {
    const double h = 1e-5;
    double difference = 0;
    for (const double sign : {1.0, -1.0}) {
      auto moved = x;
      moved[i] += sign * h;
      weft::cpu::softmax(t, s.outer, s.n, s.inner, moved.data(), y.data());
      for (std::size_t j = 0; j < 54; ++j) difference += sign * y[j] * dy[j];
    }
    slope.push_back(difference / (2 * h));
  }
  check_close(dx, slope, 1e-8, 1e-9);  // h^2 = 1e-10 times the third derivative, and 1e-16 / h of rounding
}
