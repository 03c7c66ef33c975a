// RMSNorm's gradients against finite differences. Against the definition: rows_law_test.cpp.
#include <weft/backend/cpu/rms_norm.hpp>

#include "kernel_testing.hpp"

using namespace weft_test;

namespace {

struct shape {
  int64 rows, width;
};
constexpr double eps = 1e-5;

doubles exact(const shape& s, const doubles& x, const doubles& w, doubles* rstd = nullptr) {
  doubles y;
  for (int64 r = 0; r < s.rows; ++r) {
    double squares = 0;
    for (int64 i = 0; i < s.width; ++i) squares += x[r * s.width + i] * x[r * s.width + i];
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(s.width) + eps);
    if (rstd) rstd->push_back(inverse);
    for (int64 i = 0; i < s.width; ++i) y.push_back(x[r * s.width + i] * inverse * w[i]);
  }
  return y;
}

}  // namespace

TEST_CASE("rms_norm gradients agree with finite differences") {
  const shape s{5, 13};
  const auto x = numbers<double>(65, 7), w = numbers<double>(13, 8), dy = numbers<double>(65, 9);
  team t;
  std::vector<double> y(65), rstd(5), dx(65), dw(13);
  weft::cpu::rms_norm(t, s.rows, s.width, eps, x.data(), w.data(), y.data(), rstd.data());
  weft::cpu::rms_norm_backward(t, s.rows, s.width, x.data(), w.data(), rstd.data(), dy.data(), dx.data(), false,
                               dw.data(), false);
  const auto slope = [&](bool of_weight, std::size_t i) {
    double difference = 0;
    for (const double h : {1e-5, -1e-5}) {
      auto mx = x, mw = w;
      (of_weight ? mw : mx)[i] += h;
      const doubles moved = exact(s, mx, mw);
      for (std::size_t j = 0; j < 65; ++j) difference += (h > 0 ? 1 : -1) * moved[j] * dy[j];
    }
    return difference / 2e-5;
  };
  doubles sx, sw;
  for (std::size_t i = 0; i < 65; ++i) sx.push_back(slope(false, i));
  for (std::size_t i = 0; i < 13; ++i) sw.push_back(slope(true, i));
  check_close(dx, sx, 1e-8, 1e-8);  // 1e-10 of truncation, 1e-14 / 1e-5 of rounding
  check_close(dw, sw, 1e-8, 1e-8);
}
