// Philox against its published known answers (Random123's kat_vectors), its use by index, and the moments of its
// numbers.
#include <array>
#include <cmath>
#include <utility>

#include <doctest/doctest.h>

#include <weft/core/random.hpp>

namespace {

using weft::philox;
using words = std::array<std::uint32_t, 4>;

static_assert(philox{0, 0}.block(0) == words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox{~0ull, ~0ull}.block(~0ull) == words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox{0x299f31d0a4093822u, 0x0370734413198a2eu}.block(0x85a308d3243f6a88u) ==
              words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

static_assert(weft::stream_of("") == 0xcbf29ce484222325u && weft::stream_of("a") == 0xaf63dc4c8601ec8cu &&
              weft::stream_of("foobar") == 0x85944171f73967e8u);  // FNV-1a's published values

TEST_CASE("words are the block's, in order") {
  constexpr philox r{12, 34};
  for (std::uint64_t i = 0; i < 64; ++i) CHECK(r.word(i) == r.block(i / 4)[i % 4]);
}

// n numbers: the mean of each power has a standard error of its own spread / sqrt(n). Bounds are five of those.
template <class F>
void moments(F number, double mean, double variance, double fourth) {
  constexpr int n = 200000;
  double m = 0, v = 0, k = 0, lag1 = 0, lag2 = 0, last = 0, before = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(number(i)) - mean;
    m += x / n, v += x * x / n, k += x * x * x * x / n;
    lag1 += x * last / n, lag2 += x * before / n;
    before = std::exchange(last, x);
  }
  const double five = 5 / std::sqrt(double(n));
  CHECK(std::abs(m) < five * std::sqrt(variance));
  CHECK(std::abs(v - variance) < five * std::sqrt(fourth - variance * variance));
  CHECK(std::abs(lag1) < five * variance);  // the numbers that Box and Muller make of one pair are uncorrelated, too
  CHECK(std::abs(lag2) < five * variance);
  CHECK(std::abs(k - fourth) < five * 10 * fourth);  // the eighth moment is below 105 = 35 fourths squared
}

TEST_CASE("uniform numbers lie in [0, 1) and have a uniform's moments") {
  const philox r{1, weft::stream_of("u")};
  for (std::uint64_t i = 0; i < 10000; ++i) {
    CHECK_FALSE(r.uniform(i) < 0);
    CHECK_FALSE(r.uniform(i) >= 1);
  }
  moments([&](std::uint64_t i) { return r.uniform(i); }, 0.5, 1.0 / 12, 1.0 / 80);
}

TEST_CASE("normal numbers have a normal's moments and tails") {
  const philox r{1, weft::stream_of("n")};
  moments([&](std::uint64_t i) { return r.normal(i); }, 0, 1, 3);
  int beyond = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    CHECK_FALSE(!std::isfinite(r.normal(i)));
    beyond += std::abs(r.normal(i)) > 2;
  }
  CHECK(std::abs(beyond - 4550) < 5 * 66);  // P(|x| > 2) = 0.0455, with a standard deviation of 66 in 100000
}

}  // namespace
