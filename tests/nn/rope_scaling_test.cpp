// RoPE scalings against numbers from the papers' formulas, worked out apart from this library with 50 decimal digits.
#include <limits>

#include <doctest/doctest.h>

#include <weft/nn/rope_scaling.hpp>
#include <weft/weft.hpp>

namespace {

using namespace weft;

struct expected {
  std::size_t pair;
  double frequency;
};
template <std::size_t N>
void check_frequencies(const rope_frequencies& got, const expected (&want)[N]) {
  for (const expected& e : want) {
    CAPTURE(e.pair);
    CHECK(got.inverse.at(e.pair) ==
          doctest::Approx(e.frequency).epsilon(1e-13));  // pow is good to 1e-15, the ramp adds as much
  }
}

}  // namespace

TEST_CASE("no scaling: theta^(-2i/head_dim)") {
  const auto f = frequencies_of(rope_scaling{}.resolved(2048), 64, 10000, 2048);
  REQUIRE(f.inverse.size() == 32);
  check_frequencies(f, {{0, 1.0}, {8, 0.1}, {16, 0.01}, {24, 0.001}});
  CHECK(f.attention == 1);
}

TEST_CASE("linear: every angle divided by the factor") {
  const auto f = frequencies_of(rope_scaling{.kind = rope_kind::linear, .factor = 2.5}.resolved(2048), 64, 10000, 2048);
  check_frequencies(f, {{0, 0.4}, {1, 0.29995768373298232}, {10, 0.022493653007613964}, {31, 5.3340857286532962e-05}});
  CHECK(f.attention == 1);
}

TEST_CASE("dynamic: theta grows with the sequence, from the original length on") {
  const auto s = rope_scaling{.kind = rope_kind::dynamic, .factor = 4, .original_max_seq = 2048}.resolved(8192);
  const auto plain = frequencies_of(rope_scaling{}.resolved(2048), 64, 10000, 2048);
  CHECK(frequencies_of(s, 64, 10000, 100).inverse == plain.inverse);
  CHECK(frequencies_of(s, 64, 10000, 2048).inverse == plain.inverse);
  const auto longer = frequencies_of(s, 64, 10000, 3000);
  check_frequencies(longer,
                    {{0, 1.0}, {1, 0.72490580390236503}, {10, 0.04006967031059229}, {31, 4.6636815113908599e-05}});
  // The slowest pair's angle shrinks by just what the formula is made for: factor * length / original - (factor - 1).
  CHECK(plain.inverse[31] / longer.inverse[31] == doctest::Approx(4.0 * 3000 / 2048 - 3).epsilon(1e-12));
}

TEST_CASE("yarn: Llama 2's 4096 positions sixteen times over") {
  const auto f = frequencies_of(
      rope_scaling{.kind = rope_kind::yarn, .factor = 16, .original_max_seq = 4096}.resolved(65536), 128, 10000, 65536);
  // The ramp runs from pair 20, which still turns as before, to pair 46, which turns 16 times slower.
  check_frequencies(f, {{0, 1.0},
                        {19, 0.064938163157621132},
                        {20, 0.056234132519034911},
                        {21, 0.046940859997959404},
                        {30, 0.0085268437729674081},
                        {38, 0.0014799925360714666},
                        {45, 0.00015177160473182493},
                        {46, 8.3345089510207754e-05},
                        {47, 7.2173874043091133e-05},
                        {63, 7.2173874043091138e-06}});
  CHECK(f.attention == doctest::Approx(1.2772588722239782).epsilon(1e-15));  // 0.1 ln 16 + 1
  const auto own = rope_scaling{.kind = rope_kind::yarn, .factor = 16, .attention_factor = 0.5}.resolved(64);
  CHECK(frequencies_of(own, 128, 10000, 64).attention == 0.5);
}

TEST_CASE("llama3: the released Llama 3.1's theta 500000 and 8192 positions eight times over") {
  const auto s = rope_scaling{.kind = rope_kind::llama3, .factor = 8, .original_max_seq = 8192}.resolved(131072);
  const auto f = frequencies_of(s, 128, 500000, 131072);
  check_frequencies(f, {{0, 1.0},
                        {20, 0.016560440080994446},
                        {28, 0.0032114459947525909},
                        {29, 0.0021665707635033587},
                        {30, 0.0013718935677611381},
                        {31, 0.00085675141291963208},
                        {32, 0.00052484616099295468},
                        {33, 0.00031269375038406512},
                        {34, 0.00017850781276799641},
                        {35, 9.5562123539646833e-05},
                        {36, 7.7846552739324498e-05},
                        {50, 4.4115346745584042e-06},
                        {63, 3.0689259889145111e-07}});
  CHECK(f.attention == 1);
}

TEST_CASE("numbers without meaning are refused") {
  CHECK_THROWS_WITH_AS((rope_scaling{.kind = rope_kind::linear, .factor = 0.5}.resolved(8)),
                       doctest::Contains("factor is 0.5"), weft::failure);
  CHECK_THROWS_WITH_AS((rope_scaling{.beta_fast = 1, .beta_slow = 2}.resolved(8)), doctest::Contains("beta_fast"),
                       weft::failure);
  CHECK_THROWS_WITH_AS((rope_scaling{.low_freq_factor = 4}.resolved(8)), doctest::Contains("high_freq_factor"),
                       weft::failure);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(frequencies_of({}, 5, 10000, 8), doctest::Contains("head_dim, which is 5"), weft::failure);
  CHECK_THROWS_WITH_AS(frequencies_of({}, 4, nan, 8), doctest::Contains("theta of rotary"), weft::failure);
  CHECK_THROWS_WITH_AS(frequencies_of({}, 4, -1, 8), doctest::Contains("theta of rotary"), weft::failure);
  weft::launch<weft::strategy<weft::mesh<weft::dp>>>({}, [&](weft::context& ctx) {
    const auto turns = frequencies_of({}, 4, 10000, 8);
    CHECK_THROWS_WITH_AS(make_rope_table<float>(ctx, turns, -3), doctest::Contains("a table of -3 positions"), failure);
    CHECK_THROWS_WITH_AS(make_rope_table<float>(ctx, {}, 3), doctest::Contains("0 frequencies"), failure);
    CHECK_THROWS_WITH_AS(make_rope_table<float>(ctx, {{nan, 1}, 1}, 3), doctest::Contains("a frequency is nan"),
                         failure);
  });
}
