// Laws of a backend's kernels of rows: softmax, the two norms, also with residual, and the pieces of cross-entropy over
// a slice of the vocabulary. Invariant: compared with the definition in double; each tolerance says where it comes
// from.
#pragma once

#include <weft/testing/backend/bench.hpp>

namespace weft::testing {
namespace detail::kernels {

template <class T, class B>
void softmaxes(bench<B>& b) {
  constexpr bool there = softmax_kernels<B, T>;
  if (!b.has(there, "softmax", dtype_of<T>)) return;
  if constexpr (there) {
    struct size {
      int64 outer, n, inner;
    };
    for (const size& s : {size{1, 1, 1}, {3, 7, 1}, {5, 64, 1}, {300, 129, 1}, {2, 5, 3}, {3, 4, 50}, {2, 1000, 1}}) {
      const int64 all = s.outer * s.n * s.inner;
      const auto x = numbers<T>(all, 1, -20, 20), p = numbers<T>(all, 2, 0, 1), dy = numbers<T>(all, 3);
      doubles y(x.size()), dx(x.size());
      for (int64 row = 0; row < s.outer * s.inner; ++row) {
        const auto place = [&](int64 i) { return at((row / s.inner * s.n + i) * s.inner + row % s.inner); };
        double largest = -INFINITY, total = 0, dot = 0;
        for (int64 i = 0; i < s.n; ++i) largest = std::fmax(largest, static_cast<double>(x[place(i)]));
        for (int64 i = 0; i < s.n; ++i) {
          total += std::exp(static_cast<double>(x[place(i)]) - largest);
          dot += static_cast<double>(p[place(i)]) * static_cast<double>(dy[place(i)]);
        }
        for (int64 i = 0; i < s.n; ++i) {
          y[place(i)] = std::exp(static_cast<double>(x[place(i)]) - largest) / total;
          dx[place(i)] = static_cast<double>(p[place(i)]) * (static_cast<double>(dy[place(i)]) - dot);
        }
      }
      const buffer<B, T> in(b, x), in_place(b, x), probabilities(b, p), gradient(b, dy), out(b, all);
      // x - max is rounded to 2^-24 of up to 40, which exp turns into a relative 40 * 2^-24; the sum adds a few more.
      const double relative = rounding<T> + 64 * sum_rounding<T>;
      B::softmax(b.queue(), s.outer, s.n, s.inner, in.in(), out.out());
      b.near("y = softmax(x)", out.host(), y, relative, subnormal<T>);
      B::softmax(b.queue(), s.outer, s.n, s.inner, in_place.in(), in_place.out());
      b.near("in place", in_place.host(), y, relative, subnormal<T>);
      // dot adds n terms of at most 2: its error is below 2 n 2^-24, n <= 1000.
      writes_and_adds<T>(b, "backward", dx, rounding<T> + 4 * sum_rounding<T>,
                         4 * static_cast<double>(s.n) * sum_rounding<T> + subnormal<T>, [&](T* d, bool add) {
                           B::softmax_backward(b.queue(), s.outer, s.n, s.inner, probabilities.in(), gradient.in(), d,
                                               add);
                         });
    }
    const std::vector<T> wide = {make<T>(6e4), make<T>(-INFINITY), make<T>(6e4), make<T>(-6e4)};
    const buffer<B, T> in(b, wide), out(b, 4);
    B::softmax(b.queue(), int64{1}, int64{4}, int64{1}, in.in(), out.out());
    b.near("of large and infinite numbers", out.host(), {0.5, 0, 0.5, 0}, 0, 0);
  }
}

/// What both norms give, in double: with `centred` LayerNorm's, else RMSNorm's.
struct norm_numbers {
  doubles y, mean, rstd, dx, dw, db;
};
template <class T>
norm_numbers exact_norm(bool centred, double eps, int64 rows, int64 width, const std::vector<T>& x,
                        const std::vector<T>& w, const std::vector<T>& bias, const std::vector<T>& dy) {
  norm_numbers out;
  out.dw.resize(at(width)), out.db.resize(at(width));
  const double n = static_cast<double>(width);
  for (int64 r = 0; r < rows; ++r) {
    const auto number = [&](const std::vector<T>& v, int64 i) { return static_cast<double>(v[at(r * width + i)]); };
    const auto weight = [&](int64 i) { return static_cast<double>(w[at(i)]); };
    double sum = 0, squares = 0, g = 0, gu = 0;
    for (int64 i = 0; centred && i < width; ++i) sum += number(x, i);
    for (int64 i = 0; i < width; ++i) squares += std::pow(number(x, i) - sum / n, 2);
    const double rstd = 1 / std::sqrt(squares / n + eps);
    const auto u = [&](int64 i) { return (number(x, i) - sum / n) * rstd; };
    out.mean.push_back(sum / n), out.rstd.push_back(rstd);
    for (int64 i = 0; i < width; ++i) {
      out.y.push_back(u(i) * weight(i) + (centred ? static_cast<double>(bias[at(i)]) : 0));
      if (centred) g += weight(i) * number(dy, i) / n;
      gu += weight(i) * number(dy, i) * u(i) / n;
      out.dw[at(i)] += number(dy, i) * u(i), out.db[at(i)] += number(dy, i);
    }
    for (int64 i = 0; i < width; ++i) out.dx.push_back(rstd * (weight(i) * number(dy, i) - g - u(i) * gu));
  }
  return out;
}

template <bool Centred, class T, class B>
void norms(bench<B>& b) {
  using A = accumulate_t<T>;
  constexpr bool there = Centred ? layer_norm_kernels<B, T, A> : rms_norm_kernels<B, T, A>;
  if (!b.has(there, Centred ? "layer_norm" : "rms_norm", dtype_of<T>)) return;
  if constexpr (there) {
    constexpr double eps = 1e-5;
    struct size {
      int64 rows, width;
    };
    for (const size& s : {size{3, 17}, {70, 64}, {33, 384}, {2100, 20}, {37, 1536}, {5, 4096}, {2, 8200}}) {
      const auto x = numbers<T>(s.rows * s.width, 1), w = numbers<T>(s.width, 2, 0.5, 1.5);
      const auto bias = numbers<T>(s.width, 7), dy = numbers<T>(s.rows * s.width, 3);
      const norm_numbers want = exact_norm(Centred, eps, s.rows, s.width, x, w, bias, dy);
      const buffer<B, T> in(b, x), weight(b, w), shift(b, bias), gradient(b, dy), out(b, s.rows * s.width);
      const buffer<B, double> mean(b, s.rows);
      const buffer<B, A> rstd(b, s.rows);
      if constexpr (Centred) {
        B::layer_norm(b.queue(), s.rows, s.width, eps, in.in(), weight.in(), shift.in(), out.out(), mean.out(),
                      rstd.out());
        b.near("mean", mean.host(), want.mean, 0, 100 * sum_rounding<T>);
      } else {
        B::rms_norm(b.queue(), s.rows, s.width, eps, in.in(), weight.in(), out.out(), rstd.out());
      }
      // Sums of `width` terms below 4: 100 roundings are far more than blocks or lanes need for these widths.
      // (x - mean) * rstd * w is below 6, of which a bias can leave little but the error.
      b.near("1 / deviation", rstd.host(), want.rstd, 100 * sum_rounding<T>, 0);
      b.near("y", out.host(), want.y, rounding<T>, 600 * sum_rounding<T> + subnormal<T>);
      const auto back = [&]<class G>(T* dx, bool add_x, G* dw, bool add_w, [[maybe_unused]] G* db,
                                     [[maybe_unused]] bool add_b) {
        const T* const w_of_dx =
            dx ? weight.in() : nullptr;  // asked for the parameters' alone, nobody keeps the weight
        if constexpr (Centred)
          B::layer_norm_backward(b.queue(), s.rows, s.width, in.in(), w_of_dx, mean.in(), rstd.in(), gradient.in(), dx,
                                 add_x, dw, add_w, db, add_b);
        else
          B::rms_norm_backward(b.queue(), s.rows, s.width, in.in(), w_of_dx, rstd.in(), gradient.in(), dx, add_x, dw,
                               add_w);
      };
      // dx is a difference of terms up to 3 rstd (about 1), each good to 100 roundings; dw and db add `rows` terms up
      // to 6 of either sign, each good to 20.
      const double dx_error = 400 * sum_rounding<T> + subnormal<T>;
      const double dw_error = 8 * static_cast<double>(s.rows) * 20 * sum_rounding<T>;
      const buffer<B, A> unused(b, s.width);
      A* const none = nullptr;
      writes_and_adds<T>(b, "dx, with no weight's gradient asked for", want.dx, rounding<T>, dx_error,
                         [&](T* d, bool add) { back(d, add, none, false, none, false); });
      writes_and_adds<A>(b, "dweight in the sums' type, with no dx asked for", want.dw, 2 * sum_rounding<T>, dw_error,
                         [&](A* d, bool add) { back(nullptr, false, d, add, unused.out(), false); });
      if (Centred)
        writes_and_adds<A>(b, "dbias in the sums' type", want.db, 2 * sum_rounding<T>, dw_error,
                           [&](A* d, bool add) { back(nullptr, false, none, false, d, add); });
      const buffer<B, T> dx(b, s.rows * s.width), db(b, s.width);
      writes_and_adds<T>(b, "dweight", want.dw, rounding<T>, dw_error,
                         [&](T* d, bool add) { back(dx.out(), false, d, add, db.out(), false); });
      b.near("dx beside dweight", dx.host(), want.dx, rounding<T>, dx_error);
      if (Centred) b.near("dbias", db.host(), want.db, rounding<T>, dw_error);
    }
  }
}

/// The kernel that adds and norms has the bits of the two by themselves.
template <bool Centred, class T, class B>
void norms_with_residual(bench<B>& b) {
  using A = accumulate_t<T>;
  constexpr bool there = add_norm_kernels<B, T>;
  if (!b.has(there, Centred ? "add_layer_norm" : "add_rms_norm", dtype_of<T>)) return;
  if constexpr (there) {
    constexpr double eps = 1e-5;
    struct size {
      int64 rows, width;
    };
    for (const auto& [rows, width] : {size{3, 17}, {33, 384}, {2100, 20}, {5, 4096}, {2, 8200}}) {
      const int64 all = rows * width;
      const buffer<B, T> in(b, numbers<T>(all, 1)), more(b, numbers<T>(all, 2)), weight(b, numbers<T>(width, 3)),
          bias(b, numbers<T>(width, 4)), h(b, all), y(b, all), sum(b, all), out(b, all);
      const buffer<B, double> mean(b, rows), own_mean(b, rows);
      const buffer<B, A> rstd(b, rows), own_rstd(b, rows);
      B::apply(b.queue(), binary::add, all, in.in(), more.in(), sum.out());
      if constexpr (Centred) {
        B::layer_norm(b.queue(), rows, width, eps, sum.in(), weight.in(), bias.in(), out.out(), own_mean.out(),
                      own_rstd.out());
        B::add_layer_norm(b.queue(), rows, width, eps, in.in(), more.in(), weight.in(), bias.in(), h.out(), y.out(),
                          mean.out(), rstd.out());
        b.near("mean", mean.host(), own_mean.host(), 0, 0);
      } else {
        B::rms_norm(b.queue(), rows, width, eps, sum.in(), weight.in(), out.out(), own_rstd.out());
        B::add_rms_norm(b.queue(), rows, width, eps, in.in(), more.in(), weight.in(), h.out(), y.out(), rstd.out());
      }
      b.near("h = x + r", h.host(), widened(sum.host()), 0, 0);
      b.near("1 / deviation", rstd.host(), widened(own_rstd.host()), 0, 0);
      b.near("y", y.host(), widened(out.host()), 0, 0);
    }
  }
}

template <class T, class B>
void losses(bench<B>& b) {
  using A = accumulate_t<T>;
  constexpr bool there = cross_entropy_kernels<B, T>;
  if (!b.has(there, "row_max, row_sums, row_loss and cross_entropy_backward", dtype_of<T>)) return;
  if constexpr (there)
    for (const int64 n : {1, 16, 65, 3001}) {
      // this slice is [40, 40 + n), and its rows end in padding
      const int64 rows = 11, begin = 40, vocab = 2 * n + 80, width = n + n % 3;
      const double smoothing = 0.1;
      auto x = numbers<T>(rows * width, 1, -8, 8);
      for (int64 i = 0; i < rows * width; ++i)
        if (i % width >= n) x[at(i)] = make<T>(std::nan(""));
      const auto picks = numbers<double>(rows, 7, 0, static_cast<double>(vocab));
      std::vector<std::int32_t> targets;
      for (int64 r = 0; r < rows; ++r) targets.push_back(r % 5 == 3 ? -100 : static_cast<std::int32_t>(picks[at(r)]));
      targets[0] = static_cast<std::int32_t>(begin), targets[1] = static_cast<std::int32_t>(begin + n - 1);
      targets[2] = static_cast<std::int32_t>(begin - 1), targets[4] = static_cast<std::int32_t>(begin + n);
      // Of the whole vocabulary, as if other slices had their part in it.
      const auto high = numbers<A>(rows, 2, 8, 9), log_sum = numbers<A>(rows, 4, 0, 1), g = numbers<A>(rows, 3);
      doubles largest, exps, logit, sums, logs, dx;
      double loss = 0, count = 0;
      for (int64 r = 0; r < rows; ++r) {
        const auto number = [&](int64 i) { return static_cast<double>(x[at(r * width + i)]); };
        const std::int32_t target = targets[at(r)];
        double most = -INFINITY, e = 0, s = 0;
        for (int64 i = 0; i < n; ++i) most = std::fmax(most, number(i));
        for (int64 i = 0; i < n; ++i) {
          e += std::exp(number(i) - most), s += number(i) - most;
          const double hot = begin + i == target ? 1 - smoothing : 0;
          dx.push_back(target < 0 ? 0
                                  : (std::exp(number(i) - static_cast<double>(high[at(r)]) -
                                              static_cast<double>(log_sum[at(r)])) -
                                     hot - smoothing / static_cast<double>(vocab)) *
                                        static_cast<double>(g[at(r)]));
        }
        dx.resize(at((r + 1) * width));  // zeros in the padding
        const int64 column = target - begin;
        largest.push_back(most), exps.push_back(e), sums.push_back(s), logs.push_back(std::log(e));
        logit.push_back(target >= 0 && column >= 0 && column < n ? number(column) : 0);
        if (target < 0) continue;
        loss += logs.back() - (1 - smoothing) * (logit.back() - most) - smoothing * s / static_cast<double>(vocab);
        count += 1;
      }
      const buffer<B, T> in(b, x), gradient(b, rows * width), in_place(b, x);
      const buffer<B, std::int32_t> ids(b, targets);
      const buffer<B, A> m(b, rows), e(b, rows), l(b, rows), s(b, rows), own(b, rows), total(b, 1), counted(b, 1);
      const buffer<B, A> of_all(b, high), of_sum(b, log_sum), scale(b, g);
      B::row_max(b.queue(), rows, n, in.in(), m.out(), width);
      b.near("row_max", m.host(), largest, 0, 0);
      B::row_sums(b.queue(), rows, n, in.in(), begin, ids.in(), m.in(), e.out(), l.out(), s.out(), width);
      // Differences up to 16 rounded to 2^-24 make exps good to 16 * 2^-24 each; so does adding 3001 of one sign.
      b.near("row_sums: sum of exponentials", e.host(), exps, 100 * sum_rounding<T>, 0);
      b.near("row_sums: target's logit, 0 if another slice has it", l.host(), logit, 0, 0);
      b.near("row_sums: sum of logits under the largest", s.host(), sums, 0,
             800 * static_cast<double>(n) * sum_rounding<T>);
      const buffer<B, A> again(b, rows), same(b, rows);
      A* const none = nullptr;
      B::row_sums(b.queue(), rows, n, in.in(), begin, ids.in(), m.in(), again.out(), same.out(), none, width);
      b.near("row_sums: sum of exponentials, no sum of logits asked for", again.host(), exps, 100 * sum_rounding<T>, 0);
      B::row_loss(b.queue(), rows, ids.in(), m.in(), e.in(), l.in(), s.in(), smoothing, vocab, own.out(), total.out(),
                  counted.out());
      b.near("row_loss: log of the sum", own.host(), logs, 100 * sum_rounding<T>, 200 * sum_rounding<T>);
      b.near("row_loss: loss of the rows that count", total.host(), {loss}, 200 * sum_rounding<T>,
             4000 * sum_rounding<T>);
      b.near("row_loss: how many count", counted.host(), {count}, 0, 0);
      B::cross_entropy_backward(b.queue(), rows, n, in.in(), begin, ids.in(), of_all.in(), of_sum.in(), scale.in(),
                                smoothing, vocab, gradient.out(), width);
      // exp(v - lse) is good to 32 * 2^-24; subtracting the target's 0.9 leaves that absolutely.
      const double relative = rounding<T> + 40 * sum_rounding<T>, absolute = 64 * sum_rounding<T> + subnormal<T>;
      b.near("cross_entropy_backward", gradient.host(), dx, relative, absolute);
      B::cross_entropy_backward(b.queue(), rows, n, in_place.in(), begin, ids.in(), of_all.in(), of_sum.in(),
                                scale.in(), smoothing, vocab, in_place.out(), width);
      b.near("cross_entropy_backward in place", in_place.host(), dx, relative, absolute);
    }
}

}  // namespace detail::kernels

/// The laws of `softmax`, `rms_norm`, `layer_norm`, their backwards, `add_rms_norm`, `add_layer_norm`, and `row_max`,
/// `row_sums`, `row_loss`, `cross_entropy_backward` of backend B, for element types Ts. Throws weft::failure with the
/// first kernel that is wrong.
template <class B, class... Ts>
backend_report check_row_kernels(int threads = 1) {
  return detail::kernels::each_type<B, Ts...>(threads, []<class T>(auto& b) {
    detail::kernels::softmaxes<T>(b);
    detail::kernels::norms<false, T>(b);
    detail::kernels::norms<true, T>(b);
    detail::kernels::norms_with_residual<false, T>(b);
    detail::kernels::norms_with_residual<true, T>(b);
    detail::kernels::losses<T>(b);
  });
}

}  // namespace weft::testing
