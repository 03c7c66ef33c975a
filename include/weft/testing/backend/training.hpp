// Laws of a backend's embedding, dropout and weights of few bits, and of the loops that formulas of a user's own run
// in; adamw.hpp has AdamW's. Invariant: dropout's mask is the generator's, element by element, at the global index.
#pragma once

#include <array>

#include <weft/testing/backend/adamw.hpp>

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
