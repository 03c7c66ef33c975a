// LayerNorm far from zero and of constant rows; gradients against finite differences. Against the definition:
// rows_law_test.cpp.
#include <weft/backend/cpu/layer_norm.hpp>

#include "kernel_testing.hpp"

using namespace weft_test;

namespace {

struct shape {
  int64 rows, width;
};
constexpr double eps = 1e-5;

struct normalised {
  doubles y, mean, rstd;
};
normalised exact(const shape& s, const doubles& x, const doubles& w, const doubles& b) {
  normalised out;
  const auto n = static_cast<double>(s.width);
  for (int64 r = 0; r < s.rows; ++r) {
    double sum = 0, squares = 0;
    for (int64 i = 0; i < s.width; ++i) sum += x[r * s.width + i];
    for (int64 i = 0; i < s.width; ++i) squares += std::pow(x[r * s.width + i] - sum / n, 2);
    out.mean.push_back(sum / n);
    out.rstd.push_back(1 / std::sqrt(squares / n + eps));
    for (int64 i = 0; i < s.width; ++i) out.y.push_back((x[r * s.width + i] - sum / n) * out.rstd.back() * w[i] + b[i]);
  }
  return out;
}

}  // namespace

TEST_CASE("layer_norm of numbers far from zero keeps their differences") {
  // 4096 + small: x^2 needs 24 bits before the point's fraction begins, so mean(x^2) - mean(x)^2 would be noise in
  // float.
  const shape s{4, 100};
  std::vector<float> x = numbers<float>(400, 1, 0, 1), one(100, 1.0f), zero(100, 0.0f);
  for (float& e : x) e += 4096;
  const normalised want = exact(s, widened(x), widened(one), widened(zero));
  on_every_isa([&](team& t) {
    std::vector<float> y(400);
    weft::cpu::layer_norm(t, s.rows, s.width, eps, x.data(), one.data(), zero.data(), y.data(),
                          static_cast<double*>(nullptr), static_cast<float*>(nullptr));
    check_close(y, want.y, 0, 1e-5);  // x - mean is exact but for a rounding, and the deviation is about 0.3
    return y;
  });
}

TEST_CASE("layer_norm of a constant row is its bias") {
  const std::vector<double> x(12, 3.0), w = numbers<double>(12, 2), b = numbers<double>(12, 3);
  std::vector<double> y(12);
  team t;
  weft::cpu::layer_norm(t, 1, 12, eps, x.data(), w.data(), b.data(), y.data(), static_cast<double*>(nullptr),
                        static_cast<double*>(nullptr));
  check_close(y, b, 1e-15, 1e-12);  // 3 * 12 / 12 is exact up to a rounding, which 1/sqrt(eps) multiplies by 300
}

TEST_CASE("layer_norm gradients agree with finite differences") {
  const shape s{5, 13};
  const auto x = numbers<double>(65, 7), w = numbers<double>(13, 8), b = numbers<double>(13, 10),
             dy = numbers<double>(65, 9);
  team t;
  std::vector<double> y(65), mean(5), rstd(5), dx(65), dw(13), db(13);
  weft::cpu::layer_norm(t, s.rows, s.width, eps, x.data(), w.data(), b.data(), y.data(), mean.data(), rstd.data());
  weft::cpu::layer_norm_backward(t, s.rows, s.width, x.data(), w.data(), mean.data(), rstd.data(), dy.data(), dx.data(),
                                 false, dw.data(), false, db.data(), false);
  const auto slope = [&](int which, std::size_t i) {
    double difference = 0;
    for (const double h : {1e-5, -1e-5}) {
      doubles of[3] = {x, w, b};
      of[which][i] += h;
      const doubles moved = exact(s, of[0], of[1], of[2]).y;
      for (std::size_t j = 0; j < 65; ++j) difference += (h > 0 ? 1 : -1) * moved[j] * dy[j];
    }
    return difference / 2e-5;
  };
  doubles sx, sw, sb;
  for (std::size_t i = 0; i < 65; ++i) sx.push_back(slope(0, i));
  for (std::size_t i = 0; i < 13; ++i) sw.push_back(slope(1, i)), sb.push_back(slope(2, i));
  check_close(dx, sx, 1e-8, 1e-8);  // 1e-10 of truncation, 1e-14 / 1e-5 of rounding
  check_close(dw, sw, 1e-8, 1e-8);
  check_close(db, sb, 1e-8, 1e-8);
}
