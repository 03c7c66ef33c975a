// RMSNorm against its definition in double; gradients against finite differences.
#include <weft/backend/cpu/rms_norm.hpp>

#include "kernel_testing.hpp"

using namespace testing;

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

TEST_CASE_TEMPLATE("rms_norm and its gradients", T, double, float, bf16, fp16) {
  using A = weft::accumulate_t<T>;
  for (const shape s : {shape{1, 1}, {3, 17}, {70, 64}, {33, 384}, {2100, 20}}) {
    const int64 size = s.rows * s.width;
    const auto x = numbers<T>(size, 1), w = numbers<T>(s.width, 2, 0.5, 1.5), dy = numbers<T>(size, 3);
    const auto old_dx = numbers<T>(size, 4), old_dw = numbers<T>(s.width, 5);
    const auto old_dw_float = numbers<A>(s.width, 6);
    doubles rstd, dx, dx_added, dw(s.width);
    const doubles y = exact(s, widened(x), widened(w), &rstd);
    for (int64 r = 0; r < s.rows; ++r) {
      double dot = 0;
      const auto at = [&](const std::vector<T>& v, int64 i) { return static_cast<double>(v[r * s.width + i]); };
      for (int64 i = 0; i < s.width; ++i) {
        dot += static_cast<double>(w[i]) * at(dy, i) * at(x, i);
        dw[i] += at(dy, i) * at(x, i) * rstd[r];
      }
      for (int64 i = 0; i < s.width; ++i) {
        dx.push_back(rstd[r] * (static_cast<double>(w[i]) * at(dy, i) -
                                at(x, i) * rstd[r] * rstd[r] * dot / static_cast<double>(s.width)));
        dx_added.push_back(dx.back() + static_cast<double>(old_dx[r * s.width + i]));
      }
    }
    doubles dw_added(s.width), dw_float(s.width);
    for (int64 i = 0; i < s.width; ++i) {
      dw_added[i] = dw[i] + static_cast<double>(old_dw[i]);
      dw_float[i] = dw[i] + static_cast<double>(old_dw_float[i]);
    }
    on_every_isa([&](team& t) {
      std::vector<T> got(x.size()), gx(x.size()), gx_added = old_dx, gw(w.size()), gw_added = old_dw;
      std::vector<A> gr(rstd.size()), gw_float = old_dw_float;
      weft::cpu::rms_norm(t, s.rows, s.width, eps, x.data(), w.data(), got.data(), gr.data());
      // The mean square adds `width` positive terms over at least 4 lanes: far below 100 roundings for these widths.
      check_close(gr, rstd, 50 * sum_rounding<T>, 0);
      check_close(got, y, rounding<T> + 50 * sum_rounding<T>, 0x1p-25 * (sizeof(T) == 2));
      weft::cpu::rms_norm_backward(t, s.rows, s.width, x.data(), w.data(), gr.data(), dy.data(), gx.data(), false,
                                   gw.data(), false);
      weft::cpu::rms_norm_backward(t, s.rows, s.width, x.data(), w.data(), gr.data(), dy.data(), gx_added.data(), true,
                                   gw_added.data(), true);
      // dx is a difference of terms up to r * 3 (r up to 1/sqrt(eps) at width 1, else about 1), each good to 50
      // roundings.
      const double absolute = 200 * sum_rounding<T> * (s.width == 1 ? 10 : 1) + 0x1p-25 * (sizeof(T) == 2);
      check_close(gx, dx, rounding<T>, absolute);
      check_close(gx_added, dx_added, rounding<T>, absolute);
      // dw adds `rows` terms up to 8 with either sign.
      const double dw_error = 8 * static_cast<double>(s.rows) * 20 * sum_rounding<T>;
      check_close(gw, dw, rounding<T>, dw_error);
      check_close(gw_added, dw_added, rounding<T>, dw_error);
      weft::cpu::rms_norm_backward(t, s.rows, s.width, x.data(), w.data(), gr.data(), dy.data(),
                                   static_cast<T*>(nullptr), false, gw_float.data(),
                                   true);  // weight only, into the accumulate type
      check_close(gw_float, dw_float, 2 * sum_rounding<T>, dw_error);
      std::vector<T> only_x(x.size());
      weft::cpu::rms_norm_backward(t, s.rows, s.width, x.data(), w.data(), gr.data(), dy.data(), only_x.data(), false,
                                   static_cast<A*>(nullptr), false);
      CHECK(same_bits(only_x, gx));
      got.insert(got.end(), gx.begin(), gx.end());
      got.insert(got.end(), gw.begin(), gw.end());
      return got;
    });
  }
}

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
