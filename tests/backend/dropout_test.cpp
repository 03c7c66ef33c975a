// Dropout: the mask against the generator's definition, element by element, for slices of every kind.
#include <weft/backend/cpu/dropout.hpp>
#include <weft/core/error.hpp>
#include <weft/tensor/random.hpp>

#include "kernel_testing.hpp"

using namespace testing;
using weft::placed_slice;

namespace {

constexpr weft::dropout_mask mask{0.3, 0x123456789abcdef0u, 0xfedcba9876543210u};

// Global index of the slice's element i.
int64 index_of(const placed_slice& at, int64 i) {
  int64 global = 0, step = 1;
  for (int d = at.ndim - 1; d >= 0; --d) {
    global += (i % at.local[d] + at.first[d]) * step;
    step *= at.global[d];
    i /= at.local[d];
  }
  return global;
}
int64 size_of(const placed_slice& at) {
  int64 n = 1;
  for (int d = 0; d < at.ndim; ++d) n *= at.local[d];
  return n;
}

const placed_slice slices[] = {
    {0, {}, {}, {}},                                       // a scalar
    {1, {1}, {7}, {6}},                                    // the last element
    {1, {1000}, {3000}, {1000}},                           // one run, from a multiple of four
    {1, {1001}, {3003}, {2002}},                           // and not
    {2, {5, 77}, {5, 77}, {0, 0}},                         // whole
    {2, {5, 11}, {5, 77}, {0, 33}},                        // short runs
    {3, {2, 30, 64}, {4, 30, 64}, {2, 0, 0}},              // the outermost cut: one run
    {3, {2, 10, 64}, {4, 30, 64}, {0, 20, 0}},             // the middle one too
    {3, {2, 15, 20}, {4, 30, 60}, {2, 15, 40}},            // all
    {2, {3, 40000}, {3, 80000}, {0, 40000}},               // runs longer than a block
    {1, {70}, {int64{1} << 40}, {(int64{1} << 34) - 30}},  // counters of more than 32 bits
};

}  // namespace

TEST_CASE_TEMPLATE("dropout keeps what the generator says at the global index", T, double, float, bf16, fp16) {
  using A = weft::accumulate_t<T>;
  const weft::philox words{mask.seed, mask.stream};
  for (const placed_slice& at : slices) {
    CAPTURE(&at - slices);
    const int64 n = size_of(at);
    const auto x = numbers<T>(n, 1), old = numbers<T>(n, 2);
    std::vector<T> want, added;
    for (int64 i = 0; i < n; ++i) {
      const bool kept =
          static_cast<double>(words.word(static_cast<std::uint64_t>(index_of(at, i)))) >= std::floor(0.3 * 0x1p32);
      const A y = static_cast<A>(x[i]) * (kept ? static_cast<A>(1 / 0.7) : A(0));
      want.push_back(make<T>(static_cast<double>(y)));
      added.push_back(make<T>(static_cast<double>(static_cast<A>(static_cast<A>(old[i]) + y))));
    }
    on_every_isa([&](team& t) {
      std::vector<T> got(x.size()), sum = old, in_place = x;
      weft::cpu::dropout(t, mask, at, x.data(), got.data(), false);
      weft::cpu::dropout(t, mask, at, x.data(), sum.data(), true);
      weft::cpu::dropout(t, mask, at, in_place.data(), in_place.data(), false);
      CHECK(same_bits(got, want));
      CHECK(same_bits(got, in_place));
      // x * factor + old may be one rounding (fma) or two.
      check_close(sum, widened(added), rounding<T>, 4 * sum_rounding<T>);
      return got;
    });
  }
}

TEST_CASE("dropout drops the share that was asked for") {
  team t;
  const placed_slice at{1, {100000}, {100000}, {0}};
  const std::vector<float> ones(100000, 1.0f);
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    std::vector<float> y(ones.size());
    weft::cpu::dropout(t, {rate, 1, 2}, at, ones.data(), y.data(), false);
    double kept = 0, sum = 0;
    for (const float v : y) kept += v != 0, sum += static_cast<double>(v);
    // A binomial of 1e5 draws: six standard deviations are 950 at most; the numbers are fixed, so it either holds or
    // not.
    CHECK(std::fabs(kept - 1e5 * (1 - rate)) <= 950);
    CHECK(sum == doctest::Approx(kept / (1 - rate)).epsilon(1e-6));
  }
  std::vector<float> y(ones.size());
  CHECK_THROWS_WITH_AS(weft::cpu::dropout(t, {1.0, 1, 2}, at, ones.data(), y.data(), false),
                       doctest::Contains("a dropout rate is from 0 to below 1, not 1"), weft::failure);
}
