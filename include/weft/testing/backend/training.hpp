// Laws of a backend's embedding, dropout, weights of few bits and AdamW, and of the loops that formulas of a user's own
// run in. Invariant: dropout's mask is the generator's, element by element, at the global index.
#pragma once

#include <array>

#include <weft/testing/backend/bench.hpp>

namespace weft::testing {
namespace detail::kernels {

template <class T, class G, class B>
void embeddings(bench<B>& b) {
  constexpr bool there = embedding_kernels<B, T, G>;
  if (!b.has(there, sizeof(G) == sizeof(T) ? "embedding" : "embedding, gradient in its sums' type", dtype_of<T>))
    return;
  if constexpr (there) {
    struct size {
      int64 rows, width, begin, count, vocabulary;
    };
    for (const size& s :
         {size{1, 1, 0, 1, 1}, {50, 17, 0, 7, 7}, {300, 300, 10, 20, 40}, {9, 64, 0, 1000, 1000}, {0, 8, 0, 5, 5}}) {
      const auto picks = numbers<double>(s.rows, 1, 0, static_cast<double>(s.vocabulary));
      std::vector<std::int32_t> ids;
      for (const double p : picks) ids.push_back(static_cast<std::int32_t>(p));
      if (s.rows > 10) ids[3] = -1;  // ids outside of the slice are nobody's
      const auto table = numbers<T>(s.count * s.width, 2), dy = numbers<T>(s.rows * s.width, 3);
      doubles y(dy.size()), gradient(table.size());
      for (int64 i = 0; i < s.rows * s.width; ++i) {
        const int64 id = ids[at(i / s.width)] - s.begin;
        if (id < 0 || id >= s.count) continue;
        y[at(i)] = static_cast<double>(table[at(id * s.width + i % s.width)]);
        gradient[at(id * s.width + i % s.width)] += static_cast<double>(dy[at(i)]);
      }
      const buffer<B, std::int32_t> where(b, ids);
      const buffer<B, T> rows(b, table), from(b, dy), out(b, s.rows * s.width);
      B::embedding(b.queue(), s.rows, s.width, where.in(), s.begin, s.count, rows.in(), out.out());
      b.near("rows of the table, 0 for an id outside of the slice", out.host(), y, 0, 0);
      // At most about 50 rows share an id: additions of numbers below 100, then one rounding to G.
      writes_and_adds<G>(
          b, "gradient of the table", gradient, rounding<G>, 50 * 100 * sum_rounding<G>, [&](G* d, bool add) {
            B::embedding_backward(b.queue(), s.rows, s.width, where.in(), s.begin, s.count, from.in(), d, add);
          });
    }
  }
}

template <class T, class B>
void dropouts(bench<B>& b) {
  constexpr bool there = dropout_kernel<B, T>;
  if (!b.has(there, "dropout", dtype_of<T>)) return;
  if constexpr (there) {
    const dropout_mask mask{0.3, 0x123456789abcdef0u, 0xfedcba9876543210u};
    const philox words{mask.seed, mask.stream};
    const placed_slice slices[] = {
        {0, {}, {}, {}, {}},
        {1, {1}, {7}, {6}, {1}},                                      // the last element
        {1, {1001}, {3003}, {2002}, {1001}},                          // one run
        {2, {5, 11}, {5, 77}, {0, 33}, {5, 11}},                      // short runs
        {3, {2, 15, 20}, {4, 30, 60}, {2, 15, 40}, {2, 15, 20}},      // every dimension sharded
        {2, {3, 40000}, {3, 80000}, {0, 40000}, {3, 40000}},          // long runs
        {1, {70}, {int64{1} << 40}, {(int64{1} << 34) - 30}, {70}}};  // indices of more than 32 bits
    for (const placed_slice& p : slices) {
      int64 n = 1;
      for (int d = 0; d < p.ndim; ++d) n *= p.local[d];
      const auto x = numbers<T>(n, 1);
      doubles want;
      for (int64 i = 0; i < n; ++i) {
        int64 global = 0, step = 1, rest = i;
        for (int d = p.ndim - 1; d >= 0; --d) {
          global += (rest % p.local[d] + p.first[d]) * step;
          step *= p.global[d], rest /= p.local[d];
        }
        const bool kept =
            static_cast<double>(words.word(static_cast<std::uint64_t>(global))) >= std::floor(0.3 * 0x1p32);
        want.push_back(kept ? static_cast<double>(x[at(i)]) / 0.7 : 0);
      }
      const buffer<B, T> in(b, x);
      // The factor and the product are each rounded once, then the output.
      writes_and_adds<T>(b, "kept elements / (1 - rate), others 0", want, rounding<T> + 2 * sum_rounding<T>,
                         subnormal<T>, [&](T* y, bool add) { B::dropout(b.queue(), mask, p, in.in(), y, add); });
    }
  }
}

template <class T, class B>
void few_bits(bench<B>& b) {
  constexpr bool there = dequantise_kernel<B, T>;
  if (!b.has(there, "dequantise", dtype_of<T>)) return;
  if constexpr (there) {
    struct piece {
      placed_slice at;
      int64 first, count;
    };
    const piece pieces[] = {{{2, {3, 64}, {3, 64}, {0, 0}, {3, 64}}, 0, 192},
                            {{2, {70, 640}, {70, 640}, {0, 0}, {70, 640}}, 640, 30000},  // a share
                            {{2, {5, 128}, {5, 192}, {0, 128}, {5, 64}}, 64, 576},       // columns cut, and padding
                            {{3, {3, 2, 32}, {5, 2, 32}, {3, 0, 0}, {2, 2, 32}}, 0, 192},
                            {{3, {2, 2, 64}, {3, 2, 128}, {1, 0, 64}, {2, 2, 64}}, 0, 256},  // two dimensions cut
                            {{2, {7, 11}, {7, 11}, {0, 0}, {7, 11}}, 0, 77}};  // the last block isn't full
    for (const weight_format format : {weight_format::int8, weight_format::nf4})
      for (const piece& p : pieces) {
        const bool nibbles = format == weight_format::nf4;
        const int64 row = p.at.global[p.at.ndim - 1] * (p.at.global[p.at.ndim - 1] == 32 ? 2 : 1);
        const auto bytes = [](int64 n, std::uint64_t seed) {
          std::vector<std::uint8_t> out;
          for (const double x : numbers<double>(n, seed, 0, 256)) out.push_back(static_cast<std::uint8_t>(x));
          return out;
        };
        const auto codes = bytes(nibbles ? (p.count + 1) / 2 : p.count, 1), levels = bytes((p.count + 63) / 64, 2);
        const auto scales = numbers<float>(300, 3);
        quantised_slice host{format, p.at, row, p.first, p.count, codes.data(), levels.data(), scales.data()};
        std::vector<T> want;
        for (int64 i = 0; i < p.count; ++i) {
          const int64 global = p.at.global_index(p.first + i);
          want.push_back(make<T>(global < 0 ? 0.0 : static_cast<double>(weft::detail::decoded(host, i, global))));
        }
        const buffer<B, std::uint8_t> from(b, codes), of_blocks(b, levels);
        const buffer<B, float> factors(b, scales);
        const buffer<B, T> out(b, p.count);
        host.codes = from.in(), host.levels = of_blocks.in(), host.scales = factors.in();
        B::dequantise(b.queue(), host, out.out());
        b.near("what codes stand for, 0 in padding", out.host(), widened(want), 0, 0);
      }
  }
}

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

template <class G, class T, class B>
void rounded_adamw_steps(bench<B>& b) {
  constexpr bool there = rounded_adamw_kernel<B, T, G>;
  if (!b.has(there, sizeof(G) == sizeof(T) ? "adamw, moments in bf16" : "adamw, moments in bf16, gradient in float",
             dtype_of<T>))
    return;
  if constexpr (there)
    for (const placed_slice& at : {placed_slice{1, {4001}, {9000}, {4999}, {4001}},
                                   placed_slice{2, {5, 11}, {5, 77}, {0, 33}, {5, 11}},              // columns cut
                                   placed_slice{3, {4, 9, 30}, {7, 17, 30}, {4, 9, 0}, {3, 8, 30}},  // and padding
                                   placed_slice{1, {70}, {int64{1} << 40}, {(int64{1} << 34) - 30}, {70}}}) {
      const int64 first = 3;
      int64 n = -first;
      for (int64 line = 1, d = 0; d < at.ndim; ++d) n = (line *= at.local[d]) - first;
      const stochastic_rounding rounding{at, first, {0x123456789abcdef0u, 0xfedcba9876543210u}};
      const auto whole = [&](std::uint64_t seed, double most) {  // numbers that float adds and multiplies exactly
        doubles out = numbers<double>(n, seed, 0, most);
        for (double& x : out) x = std::floor(x);
        return out;
      };
      const doubles g = whole(1, 500), m = whole(2, 128), v = whole(3, 128), w = whole(4, 100);
      doubles want_m, want_v;
      weft::detail::rounding_words words{rounding.numbers};
      std::vector<G> gradient;
      std::vector<bf16> means, squares;
      std::vector<float> weights;
      for (std::size_t i = 0; i < g.size(); ++i) {
        gradient.push_back(make<G>(g[i])), weights.push_back(make<float>(w[i]));
        means.push_back(make<bf16>(m[i])), squares.push_back(make<bf16>(v[i]));
        const double x = static_cast<double>(gradient[i]) / 8;
        const std::uint32_t word = words.word(at.global_index(first + static_cast<int64>(i)));
        const auto rounded = [](double y, std::uint32_t chance) {
          return static_cast<double>(static_cast<float>(stochastically_rounded(static_cast<float>(y), chance)));
        };
        want_m.push_back(rounded((m[i] + x) / 2, word & 0xffffu));
        want_v.push_back(rounded((v[i] + x * x) / 2, word >> 16));
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
}

// What each_row, each_line and once call: all they touch is the backend's memory, by value.
struct note_offsets {
  std::int32_t *met, *wrong;  // by element: how often, and whether with offsets that aren't the sums of index * stride

  constexpr void note(int64 first, int64 second, int64 third) const {
    if (first < 0 || first >= 1050) return;  // some other element isn't met then
    ++met[first];
    wrong[first] += second != first / 350 + first / 70 % 5 * 3 + first % 70 * 15 || third != first % 70;
  }
  template <class Offsets, class Steps>
  constexpr void operator()(int64 n, const Offsets& offsets, const Steps& steps) const {
    for (int64 i = 0; i < n; ++i) note(offsets[0] + i * steps[0], offsets[1] + i * steps[1], offsets[2] + i * steps[2]);
  }
  template <class Offsets>
  constexpr void operator()(const Offsets& offsets) const {
    note(offsets[0], offsets[1], offsets[2]);
  }
};
struct append_digit {
  std::int32_t* digits;
  std::int32_t digit;
  constexpr void operator()() const { *digits = *digits * 10 + digit; }
};

/// Every element is met once, at the offsets that the strides say; and `once` is once, in the queue's order.
template <class B>
void loops(bench<B>& b) {
  const int64 extents[] = {3, 5, 70}, strides[] = {350, 70, 1}, turned[] = {1, 3, 15}, none[] = {0, 0, 1};
  const std::array<const int64*, 3> arrays{strides, turned, none};
  const auto judge = [&](const char* kernel, bool there, const auto& call) {
    if (!b.has(there, kernel, dtype::i32)) return;
    const buffer<B, std::int32_t> met(b, std::vector<std::int32_t>(1050)), wrong(b, std::vector<std::int32_t>(1050));
    call(note_offsets{met.out(), wrong.out()});
    bool once = true, right = true;
    for (const std::int32_t m : met.host()) once = once && m == 1;
    for (const std::int32_t w : wrong.host()) right = right && w == 0;
    b.must(once && right,
           once ? "an offset isn't the sum of index * stride" : "it doesn't call f once for each element");
  };
  constexpr bool has_rows = requires(const note_offsets& f) { B::each_row(b.queue(), 3, extents, arrays, f); };
  judge("each_row", has_rows, [&]([[maybe_unused]] const note_offsets& f) {
    if constexpr (has_rows) B::each_row(b.queue(), 3, extents, arrays, f);
  });
  constexpr bool has_lines = requires(const note_offsets& f) {
    B::each_line(b.queue(), 3, extents, arrays, int64{9}, f);
  };
  judge("each_line", has_lines, [&]([[maybe_unused]] const note_offsets& f) {
    if constexpr (has_lines) B::each_line(b.queue(), 3, extents, arrays, int64{9}, f);
  });
  constexpr bool has_once = requires(const append_digit& f) { B::once(b.queue(), f); };
  if (b.has(has_once, "once", dtype::i32)) {
    const buffer<B, std::int32_t> digits(b, std::vector<std::int32_t>(1));
    if constexpr (has_once)
      for (const std::int32_t digit : {1, 2, 3}) B::once(b.queue(), append_digit{digits.out(), digit});
    b.must(digits.host()[0] == 123, "it doesn't call f once, in the queue's order");
  }
}

}  // namespace detail::kernels

/// The laws of `embedding`, `dropout`, `dequantise`, `adamw`, their backwards, `each_row`, `each_line` and `once` of
/// backend B, for element types Ts. Throws weft::failure with the first kernel that is wrong.
template <class B, class... Ts>
backend_report check_training_kernels(int threads = 1) {
  backend_report report = detail::kernels::each_type<B, Ts...>(threads, []<class T>(auto& b) {
    detail::kernels::embeddings<T, T>(b);
    if constexpr (sizeof(T) == 2) detail::kernels::embeddings<T, accumulate_t<T>>(b);
    detail::kernels::dropouts<T>(b);
    detail::kernels::few_bits<T>(b);
    detail::kernels::adamw_steps<accumulate_t<T>, T, T>(b);
    if constexpr (sizeof(T) == 2) detail::kernels::adamw_steps<accumulate_t<T>, accumulate_t<T>, T>(b);
    if constexpr (sizeof(T) <= 4) detail::kernels::rounded_adamw_steps<float, T>(b);
  });
  detail::kernels::bench<B> b(threads);
  detail::kernels::loops(b);
  report.join(b.report);
  return report;
}

}  // namespace weft::testing
