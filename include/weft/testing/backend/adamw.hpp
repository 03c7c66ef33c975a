// Laws of a backend's AdamW, with moments of the master's type and with moments rounded to bf16. Invariant: what is
// expected follows from the rule in double, and of rounded moments to the bit, by the words at global indices.
#pragma once

#include <weft/testing/backend/bench.hpp>

namespace weft::testing::detail::kernels {

template <class M, class G, class T, class B>
void adamw_steps(bench<B>& b) {
  constexpr bool there = adamw_kernel<B, T, M, G>;
  if (!b.has(there, sizeof(G) == sizeof(T) ? "adamw" : "adamw, gradient in its sums' type", dtype_of<T>)) return;
  if constexpr (there)
    for (const int64 n : {1, 29, 40001}) {
      const double lr = 1e-2, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1, scale = 0.5;
      decay_ranges decaying;  // with ends at any element, and none where n is 1
      decaying.add(2, n / 3), decaying.add(n / 3 + 5, n / 2), decaying.add(n / 2 + 1024, n);
      const auto decays = [n](int64 i) {
        return (i >= 2 && i < n / 3) || (i >= n / 3 + 5 && i < n / 2) || i >= n / 2 + 1024;
      };
      const auto start = numbers<M>(n, 1);
      doubles w = widened(start), m(w.size()), v(w.size());
      const buffer<B, M> master(b, start), first(b, std::vector<M>(start.size())),
          second(b, std::vector<M>(start.size()));
      const buffer<B, T> working(b, n);
      for (int t = 1; t <= 3; ++t) {
        const auto g = numbers<G>(n, static_cast<std::uint64_t>(10 + t));
        const double bias1 = 1 - std::pow(beta1, t), bias2 = 1 - std::pow(beta2, t);
        for (std::size_t i = 0; i < w.size(); ++i) {
          const double scaled = static_cast<double>(g[i]) * scale;
          m[i] = beta1 * m[i] + (1 - beta1) * scaled;
          v[i] = beta2 * v[i] + (1 - beta2) * scaled * scaled;
          w[i] -= lr *
                  (m[i] / bias1 / (std::sqrt(v[i] / bias2) + eps) + (decays(static_cast<int64>(i)) ? decay * w[i] : 0));
        }
        const buffer<B, G> gradient(b, g);
        // The factor is given, or lies in memory; where that is NaN, nothing is written.
        const buffer<B, double> number(b, doubles{scale}), none(b, doubles{std::nan("")});
        const auto in_memory = kernel_number::in_memory(number.in());
        for (const kernel_number& by : {kernel_number::in_memory(none.in()), t == 2 ? in_memory : kernel_number(scale)})
          B::adamw(b.queue(), adamw_step{lr, beta1, beta2, eps, decay, bias1, bias2, by}, n, decaying, master.out(),
                   first.out(), second.out(), gradient.in(), working.out());
      }
      // About ten roundings a step. m may cancel (absolute); the update is lr * (at most 1.7) with the error of m.
      b.near("first moment", first.host(), m, 30 * sum_rounding<M>, 10 * sum_rounding<M>);
      b.near("second moment", second.host(), v, 30 * sum_rounding<M>, 0);
      const auto weights = master.host();
      b.near("master weights", weights, w, 10 * sum_rounding<M>, 10 * sum_rounding<M>);
      doubles rounded;
      for (const M x : weights) rounded.push_back(static_cast<double>(make<T>(static_cast<double>(x))));
      b.near("weights: the master's, rounded once", working.host(), rounded, 0, 0);
      const buffer<B, G> gradient(b, n);
      B::adamw(b.queue(), adamw_step{0, 0, 0, 1, 0, 1, 1, 0}, 0, decay_ranges(), master.out(), first.out(),
               second.out(), gradient.in(),
               static_cast<T*>(nullptr));  // where there is no working copy
    }
}

/// Tensors of which the first elements are another's, one behind another, each at a multiple of `together`, with zeros
/// between.
template <class G, class T, class B>
void rounded_adamw_step(bench<B>& b, int64 together) {
  constexpr int64 before = 3;
  rounding_ranges rounding;
  std::vector<std::uint32_t> chances;  // a word an element
  std::vector<bool> zero;
  for (const placed_slice& at : {placed_slice{1, {4001}, {9000}, {4999}, {4001}},
                                 placed_slice{2, {5, 11}, {5, 77}, {0, 33}, {5, 11}},              // columns cut
                                 placed_slice{3, {4, 9, 30}, {7, 17, 30}, {4, 9, 0}, {3, 8, 30}},  // and padding
                                 placed_slice{1, {70}, {int64{1} << 40}, {(int64{1} << 34) - 30}, {70}}}) {
    const philox draws{0x123456789abcdef0u, 0xfedcba9876543210u + chances.size()};
    rounding.add(std::ssize(chances), stochastic_rounding{at, before, draws});
    int64 count = 1;
    for (int d = 0; d < at.ndim; ++d) count *= at.local[d];
    weft::detail::rounding_words words{draws};
    for (int64 i = before; i < count; ++i) chances.push_back(words.word(at.global_index(i))), zero.push_back(false);
    do {
      chances.push_back(0), zero.push_back(true);
    } while (std::ssize(chances) % together != 0);
  }
  const int64 n = std::ssize(chances);
  const auto whole = [&](std::uint64_t seed, double most) {  // numbers that float adds and multiplies exactly
    doubles out = numbers<double>(n, seed, 0, most);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = zero[i] ? 0 : std::floor(out[i]);
    return out;
  };
  const doubles g = whole(1, 500), m = whole(2, 128), v = whole(3, 128), w = whole(4, 100);
  doubles want_m, want_v;
  std::vector<G> gradient;
  std::vector<bf16> means, squares;
  std::vector<float> weights;
  for (std::size_t i = 0; i < g.size(); ++i) {
    gradient.push_back(make<G>(g[i])), weights.push_back(make<float>(w[i]));
    means.push_back(make<bf16>(m[i])), squares.push_back(make<bf16>(v[i]));
    const double x = static_cast<double>(gradient[i]) / 8;
    const auto rounded = [](double y, std::uint32_t chance) {
      return static_cast<double>(static_cast<float>(stochastically_rounded(static_cast<float>(y), chance)));
    };
    want_m.push_back(rounded((m[i] + x) / 2, chances[i] & 0xffffu));
    want_v.push_back(rounded((v[i] + x * x) / 2, chances[i] >> 16));
  }
  const buffer<B, G> from(b, gradient);
  const buffer<B, bf16> mean(b, means), square(b, squares);
  const buffer<B, float> master(b, weights);
  const buffer<B, T> working(b, n);
  B::adamw(b.queue(), adamw_step{0.5, 0.5, 0.5, 1, 0, 1, 1, 0.125, 1}, n, decay_ranges(), master.out(), mean.out(),
           square.out(), from.in(), working.out(), rounding);
  b.near("first moment, rounded by the lower half of its word", mean.host(), want_m, 0, 0);
  b.near("second moment, rounded by the upper half of its word", square.host(), want_v, 0, 0);
  doubles want_w;  // by moments that aren't rounded yet
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double x = static_cast<double>(gradient[i]) / 8;
    want_w.push_back(w[i] - 0.5 * ((m[i] + x) / 2) / (std::sqrt((v[i] + x * x) / 2) + 1));
  }
  const auto moved = master.host();
  b.near("master weights", moved, want_w, 10 * sum_rounding<float>, 10 * sum_rounding<float>);
  doubles rounded;
  for (const float x : moved) rounded.push_back(static_cast<double>(make<T>(static_cast<double>(x))));
  b.near("weights: the master's, rounded once", working.host(), rounded, 0, 0);
}

template <class G, class T, class B>
void rounded_adamw_steps(bench<B>& b) {
  constexpr bool there = rounded_adamw_kernel<B, T, G>;
  if (!b.has(there, sizeof(G) == sizeof(T) ? "adamw, moments in bf16" : "adamw, moments in bf16, gradient in float",
             dtype_of<T>))
    return;
  if constexpr (there)
    for (const int64 together : {1, 16}) rounded_adamw_step<G, T>(b, together);
}

}  // namespace weft::testing::detail::kernels
