// Weights of few bits: the same numbers on every instruction set as their formats' definitions give, and what
// quantising loses.
#include <weft/backend/cpu/dequantise.hpp>
#include <weft/backend/quantise.hpp>

#include "kernel_testing.hpp"

using namespace weft_test;
using weft::placed_slice;
using weft::quantised_slice;
using weft::weight_format;

namespace {

constexpr isa levels_of_isa[] = {isa::portable, isa::avx2, isa::avx512};

/// A matrix with sound numbers of both signs, and a row of zeros.
std::vector<float> matrix(int64 rows, int64 columns) {
  generator random(7);
  std::vector<float> out;
  for (int64 r = 0; r < rows; ++r)
    for (int64 c = 0; c < columns; ++c)
      out.push_back(r == 1 ? 0 : static_cast<float>(random.uniform(-1, 1) * static_cast<double>(1 + r)));
  return out;
}

/// What a whole tensor is quantised to, and a slice of it.
struct stored {
  weight_format format;
  int64 row;
  std::vector<float> scales;
  std::vector<std::uint8_t> codes, levels;  // of the whole: a code each

  stored(weight_format f, const std::vector<float>& x, int64 columns) : format(f), row(columns) {
    weft::detail::quantiser q(f, static_cast<int64>(x.size()), columns);
    REQUIRE(q.see(0, static_cast<int64>(x.size()), x.data()) == -1);
    scales = q.scales();
    CHECK(static_cast<int64>(scales.size()) == weft::detail::scales_of(f, static_cast<int64>(x.size()), columns));
    for (std::size_t i = 0; i < x.size(); ++i) {
      codes.push_back(q.code(static_cast<int64>(i), x[i]));
      levels.push_back(f == weight_format::nf4 ? q.level(static_cast<int64>(i)) : std::uint8_t{0});
    }
  }
  /// By the definition, element by element.
  float number(int64 at) const {
    const auto i = static_cast<std::size_t>(at);
    if (format == weight_format::int8) {
      volatile float scaled =
          static_cast<float>(static_cast<std::int8_t>(codes[i])) * scales[static_cast<std::size_t>(at / row)];
      return scaled * (1.0f / 127);
    }
    volatile float product = scales[levels[i]] * scales[static_cast<std::size_t>(257 + at / (64 * 256))];
    volatile float scale = product + scales[256];
    return weft::detail::nf4_values.at[codes[i]] * scale;
  }
  template <class T>
  std::vector<T> slice(const placed_slice& at, int64 first, int64 count) const {
    std::vector<std::uint8_t> packed, scale;
    for (int64 i = 0; i < count; ++i) {
      const int64 global = at.global_index(first + i);
      const std::uint8_t code = global < 0 ? std::uint8_t{0} : codes[static_cast<std::size_t>(global)];
      if (format == weight_format::int8)
        packed.push_back(code);
      else if (i % 2 == 0)
        packed.push_back(static_cast<std::uint8_t>(code << 4));
      else
        packed.back() = static_cast<std::uint8_t>(packed.back() | code);
      if (i % 64 == 0) scale.push_back(global < 0 ? std::uint8_t{0} : levels[static_cast<std::size_t>(global)]);
    }
    team cores(2);
    std::vector<T> y(static_cast<std::size_t>(count), make<T>(99));
    weft::cpu::dequantise(
        cores, quantised_slice{format, at, row, first, count, packed.data(), scale.data(), scales.data()}, y.data());
    return y;
  }
};

template <class T>
void is_the_definition(const stored& s, const placed_slice& at, int64 first, int64 count) {
  const auto y = s.slice<T>(at, first, count);
  bool same = true;
  for (int64 i = 0; i < count; ++i) {
    const int64 global = at.global_index(first + i);
    const T want = make<T>(global < 0 ? 0.0 : static_cast<double>(s.number(global)));
    same = same && std::memcmp(&y[static_cast<std::size_t>(i)], &want, sizeof(T)) == 0;
  }
  CHECK(same);
}

}  // namespace

TEST_CASE("codes stand for the same numbers on every instruction set") {
  struct piece {
    int64 rows, columns;
    placed_slice at;
    int64 first, count;
  };
  const piece pieces[] = {
      {3, 64, {2, {3, 64}, {3, 64}, {0, 0}, {3, 64}}, 0, 192},
      {300, 640, {2, {300, 640}, {300, 640}, {0, 0}, {300, 640}}, 6400, 100000},  // a share of all
      {5, 256, {2, {5, 128}, {5, 256}, {0, 128}, {5, 128}}, 128, 512},            // columns cut
      {5, 192, {2, {5, 128}, {5, 192}, {0, 128}, {5, 64}}, 0, 640},               // with padding behind them
      {5, 64, {3, {3, 2, 32}, {5, 2, 32}, {3, 0, 0}, {2, 2, 32}}, 0, 192},        // rows cut, the last is padding
      {7, 11, {2, {7, 11}, {7, 11}, {0, 0}, {7, 11}}, 0, 77},                     // the last block isn't full
  };
  for (const weight_format f : {weight_format::int8, weight_format::nf4})
    for (const piece& p : pieces) {
      const stored s(f, matrix(p.rows, p.columns), p.columns);
      for (const isa level : levels_of_isa) {
        if (!weft::cpu::has_isa(level)) continue;
        const isa before = weft::cpu::use_isa(level);
        is_the_definition<float>(s, p.at, p.first, p.count);
        is_the_definition<double>(s, p.at, p.first, p.count);
        is_the_definition<bf16>(s, p.at, p.first, p.count);
        is_the_definition<fp16>(s, p.at, p.first, p.count);
        weft::cpu::use_isa(before);
      }
    }
  // int8 has no blocks: any cut will do.
  const stored s(weight_format::int8, matrix(4, 10), 10);
  is_the_definition<float>(s, {2, {4, 4}, {4, 10}, {0, 8}, {4, 2}}, 0, 16);
}

TEST_CASE("quantising loses at most half a step") {
  const auto x = matrix(40, 512);
  const stored bytes(weight_format::int8, x, 512), nibbles(weight_format::nf4, x, 512);
  double worst_byte = 0, worst_nibble = 0;
  for (int64 i = 0; i < static_cast<int64>(x.size()); ++i) {
    float row = 0, block = 0;
    for (int64 k = 0; k < 512; ++k) row = std::max(row, std::abs(x[static_cast<std::size_t>(i / 512 * 512 + k)]));
    for (int64 k = 0; k < 64; ++k) block = std::max(block, std::abs(x[static_cast<std::size_t>(i / 64 * 64 + k)]));
    const auto off = [&](const stored& s) {
      return std::abs(static_cast<double>(s.number(i)) - static_cast<double>(x[static_cast<std::size_t>(i)]));
    };
    if (row == 0) {
      CHECK(off(bytes) == 0);
      CHECK(off(nibbles) == 0);
      continue;
    }
    worst_byte = std::max(worst_byte, off(bytes) / static_cast<double>(row));
    worst_nibble = std::max(worst_nibble, off(nibbles) / static_cast<double>(block));
  }
  CHECK(worst_byte <= 0.5 / 127 + 1e-6);
  CHECK(worst_nibble <= 0.16 + 0.02);  // half the widest step, and what a scale of 8 bits is off
}

TEST_CASE("a number that is not finite is told by its place") {
  weft::detail::quantiser q(weight_format::nf4, 128, 0);
  const float x[] = {1, 2, NAN}, y[] = {INFINITY};
  CHECK(q.see(64, 3, x) == 66);
  CHECK(q.see(0, 1, y) == 0);
}
