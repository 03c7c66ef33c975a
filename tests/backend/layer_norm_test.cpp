// LayerNorm against its definition in double; gradients against finite differences.
#include <weft/backend/cpu/layer_norm.hpp>

#include "kernel_testing.hpp"

using namespace testing;

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

TEST_CASE_TEMPLATE("layer_norm and its gradients", T, double, float, bf16, fp16) {
  using A = weft::accumulate_t<T>;
  for (const shape s : {shape{3, 17}, {70, 64}, {33, 384}, {2100, 20}}) {
    const int64 size = s.rows * s.width;
    const auto x = numbers<T>(size, 1), w = numbers<T>(s.width, 2, 0.5, 1.5), b = numbers<T>(s.width, 7),
               dy = numbers<T>(size, 3);
    const auto old_dx = numbers<T>(size, 4), old_dw = numbers<T>(s.width, 5);
    const auto old_float = numbers<A>(s.width, 6);
    const normalised want = exact(s, widened(x), widened(w), widened(b));
    doubles dx, dx_added, dw(s.width), db(s.width);
    for (int64 r = 0; r < s.rows; ++r) {
      const auto n = static_cast<double>(s.width);
      const auto u = [&](int64 i) { return (static_cast<double>(x[r * s.width + i]) - want.mean[r]) * want.rstd[r]; };
      const auto d = [&](int64 i) { return static_cast<double>(dy[r * s.width + i]); };
      double g = 0, gu = 0;
      for (int64 i = 0; i < s.width; ++i) {
        g += static_cast<double>(w[i]) * d(i) / n;
        gu += static_cast<double>(w[i]) * d(i) * u(i) / n;
        dw[i] += d(i) * u(i);
        db[i] += d(i);
      }
      for (int64 i = 0; i < s.width; ++i) {
        dx.push_back(want.rstd[r] * (static_cast<double>(w[i]) * d(i) - g - u(i) * gu));
        dx_added.push_back(dx.back() + static_cast<double>(old_dx[r * s.width + i]));
      }
    }
    doubles dw_added(s.width), dw_float(s.width), db_float(s.width);
    for (int64 i = 0; i < s.width; ++i) {
      dw_added[i] = dw[i] + static_cast<double>(old_dw[i]);
      dw_float[i] = dw[i] + static_cast<double>(old_float[i]);
      db_float[i] = db[i] + static_cast<double>(old_float[i]);
    }
    on_every_isa([&](team& t) {
      std::vector<T> got(x.size()), gx(x.size()), gx_added = old_dx, gw(w.size()), gw_added = old_dw, gb(w.size()),
                                                  gb_unused(w.size());
      std::vector<A> gm(want.mean.size()), gr(want.rstd.size()), gw_float = old_float, gb_float = old_float;
      weft::cpu::layer_norm(t, s.rows, s.width, eps, x.data(), w.data(), b.data(), got.data(), gm.data(), gr.data());
      // Sums of `width` terms below 4 over at least 4 lanes: far below 100 roundings for these widths.
      check_close(gm, want.mean, 0, 100 * sum_rounding<T>);
      check_close(gr, want.rstd, 100 * sum_rounding<T>, 0);
      // (x - mean) * rstd * w is below 6 and good to 100 roundings, of which the bias can leave little but the error.
      check_close(got, want.y, rounding<T>, 600 * sum_rounding<T> + 0x1p-25 * (sizeof(T) == 2));
      const auto back = [&](T* to_x, bool add_x, auto* to_w, bool add_w, auto* to_b, bool add_b) {
        weft::cpu::layer_norm_backward(t, s.rows, s.width, x.data(), w.data(), gm.data(), gr.data(), dy.data(), to_x,
                                       add_x, to_w, add_w, to_b, add_b);
      };
      back(gx.data(), false, gw.data(), false, gb.data(), false);
      back(gx_added.data(), true, gw_added.data(), true, gb_unused.data(), false);
      CHECK(same_bits(gb, gb_unused));
      // dx is a difference of terms up to 3 * rstd (about 1), each good to 100 roundings.
      const double absolute = 400 * sum_rounding<T> + 0x1p-25 * (sizeof(T) == 2);
      check_close(gx, dx, rounding<T>, absolute);
      check_close(gx_added, dx_added, rounding<T>, absolute);
      // dw adds `rows` terms up to 6 with either sign, each good to 20 roundings; db terms up to 2.
      const double weight_error = 8 * static_cast<double>(s.rows) * 20 * sum_rounding<T>;
      check_close(gw, dw, rounding<T>, weight_error);
      check_close(gw_added, dw_added, rounding<T>, weight_error);
      check_close(gb, db, rounding<T>, weight_error);
      back(nullptr, false, gw_float.data(), true, gb_float.data(), true);  // weights only, into the accumulate type
      check_close(gw_float, dw_float, 2 * sum_rounding<T>, weight_error);
      check_close(gb_float, db_float, 2 * sum_rounding<T>, weight_error);
      std::vector<T> only_x(x.size()), only_b(w.size());
      back(only_x.data(), false, static_cast<A*>(nullptr), false, static_cast<A*>(nullptr), false);
      CHECK(same_bits(only_x, gx));
      back(nullptr, false, static_cast<T*>(nullptr), false, only_b.data(), false);
      CHECK(same_bits(only_b, gb));
      got.insert(got.end(), gx.begin(), gx.end());
      got.insert(got.end(), gw.begin(), gw.end());
      got.insert(got.end(), gb.begin(), gb.end());
      return got;
    });
  }
}

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
                          static_cast<float*>(nullptr), static_cast<float*>(nullptr));
    // The mean is good to 4096 * 2^-24 times a few roundings, 1e-3, and the deviation is about 0.3.
    check_close(y, want.y, 0, 1e-2);
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
