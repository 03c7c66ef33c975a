// Numbers of 8 bits: every code's number, and that every float becomes the nearest one.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <weft/core/float8.hpp>

namespace {
using namespace weft;
using weft::detail::float8_code, weft::detail::float8_number, weft::detail::float8_scale,
    weft::detail::rounded_to_float8;

// As the formats are defined: sign, exponent with its bias, mantissa; exponent 0 has no hidden digit.
double defined(float8_form form, int code) {
  const int mantissa = form == float8_form::e4m3 ? 3 : 2, bias = form == float8_form::e4m3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> mantissa, digits = code & ((1 << mantissa) - 1);
  const double unit = std::ldexp(1.0, -mantissa), size = exponent == 0 ? std::ldexp(digits * unit, 1 - bias)
                                                                       : std::ldexp(1 + digits * unit, exponent - bias);
  return code & 0x80 ? -size : size;
}
bool is_number(float8_form form, int code) { return (code & 0x7f) < (form == float8_form::e4m3 ? 0x7f : 0x7c); }

constexpr float8_form forms[] = {float8_form::e4m3, float8_form::e5m2};

TEST_CASE("each code is the number that the format defines, and that number's code") {
  for (const float8_form form : forms)
    for (int code = 0; code < 256; ++code) {
      const float x = float8_number(form, static_cast<std::uint8_t>(code));
      if (!is_number(form, code)) {
        CHECK(std::isnan(x));
        continue;
      }
      CHECK(x == defined(form, code));
      CHECK(float8_code(form, x) == code);
    }
}

TEST_CASE("a float becomes the nearest number, the even one of two, and the largest where it is larger") {
  for (const float8_form form : forms) {
    std::vector<double> numbers;
    for (int code = 0; code < 128 && is_number(form, code); ++code) numbers.push_back(defined(form, code));
    const auto nearest = [&](double x) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < numbers.size(); ++i) {
        const double here = std::fabs(numbers[i] - x), there = std::fabs(numbers[best] - x);
        if (here < there || (here == there && i % 2 == 0)) best = i;
      }
      return best;
    };
    for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
      const auto low = static_cast<float>(numbers[i]), high = static_cast<float>(numbers[i + 1]),
                 middle = (low + high) / 2;
      for (const float x : {low, std::nextafter(low, high), std::nextafter(middle, low), middle,
                            std::nextafter(middle, high), std::nextafter(high, low)}) {
        CHECK(float8_code(form, x) == nearest(x));
        CHECK(float8_code(form, -x) == (0x80 | nearest(x)));
      }
    }
    const auto last = static_cast<std::uint8_t>(numbers.size() - 1);
    for (const float x : {1e5f, 1e30f, std::numeric_limits<float>::max()}) CHECK(float8_code(form, x) == last);
    CHECK(float8_code(form, std::numeric_limits<float>::denorm_min()) == 0);
    for (const float x : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      CHECK(float8_code(form, x) == 0x7f);
      CHECK(float8_code(form, -x) % 0x80 == 0x7f);
    }
  }
}

TEST_CASE("a scale is the largest power of two with which the largest number fits") {
  for (const float8_form form : forms) {
    const double most = form == float8_form::e4m3 ? 448 : 57344;
    for (const float largest : {1.0f, 1.75f, std::nextafter(1.75f, 2.0f), 448.0f, 449.0f, 57344.0f, 6e4f, 3e-5f, 1e-30f,
                                2e38f, std::numeric_limits<float>::max()}) {
      const float scale = float8_scale(form, largest);
      int exponent = 0;
      CHECK(std::frexp(scale, &exponent) == 0.5f);
      CHECK(weft::detail::undoing(scale) == 1 / scale);
      CHECK(double(scale) * largest <= most);
      CHECK(2 * double(scale) * largest > most);
      CHECK(rounded_to_float8(form, scale, largest) > 0.93f * largest);
    }
    CHECK(float8_scale(form, std::numeric_limits<float>::denorm_min()) == 0x1p126f);  // 2^127 has no reciprocal
    for (const float x : {0.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
      CHECK(float8_scale(form, x) == 1);
  }
}

static_assert(rounded_to_float8(float8_form::e4m3, 1, 0.3f) == 0.3125f);
static_assert(rounded_to_float8(float8_form::e5m2, 4, -0.3f) == -0.3125f);

}  // namespace
