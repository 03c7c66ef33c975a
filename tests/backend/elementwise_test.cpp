// The CPU's element-wise kernels beyond the laws of elementwise_law_test.cpp: accuracy in units of the last place,
// edges, bits of rounding.
#include <weft/backend/cpu/broadcast.hpp>
#include <weft/backend/cpu/elementwise.hpp>

#include "kernel_testing.hpp"

using namespace weft_test;
using weft::binary;
using weft::unary;

namespace {

double exact(unary f, double x) {
  return f == unary::exp    ? std::exp(x)
         : f == unary::log  ? std::log(x)
         : f == unary::tanh ? std::tanh(x)
                            : 1 / (1 + std::exp(-x));
}
void apply(team& t, unary f, int64 n, const float* x, float* y) {
  if (f == unary::exp) return weft::cpu::apply<unary::exp>(t, n, x, y);
  if (f == unary::log) return weft::cpu::apply<unary::log>(t, n, x, y);
  if (f == unary::tanh) return weft::cpu::apply<unary::tanh>(t, n, x, y);
  weft::cpu::apply<unary::sigmoid>(t, n, x, y);
}

}  // namespace

TEST_CASE("float exp, log, tanh and sigmoid are within 2 units in the last place over their whole range") {
  const int64 n = 200000;
  struct range {
    unary f;
    double low, high;
  };
  for (const range r : {range{unary::exp, -87.3, 88.7}, range{unary::exp, -0.01, 0.01}, range{unary::log, 1e-6, 4},
                        range{unary::log, 0.9, 1.1}, range{unary::log, 1, 3e38}, range{unary::tanh, -9, 9},
                        range{unary::tanh, -0.7, 0.7}, range{unary::sigmoid, -80, 20}}) {
    const auto x = numbers<float>(n, 4, r.low, r.high);
    doubles y;
    for (const float v : x) y.push_back(exact(r.f, v));
    INFO("function " << static_cast<int>(r.f));
    on_every_isa([&](team& t) {
      std::vector<float> got(x.size());
      apply(t, r.f, n, x.data(), got.data());
      check_close(got, y, 2 * 0x1p-23, 0);  // one unit in the last place is at most 2^-23 of the value
      return got;
    });
  }
}

TEST_CASE("float functions at the edges: zeros, infinities, subnormals, NaN") {
  const float infinity = INFINITY;
  const std::vector<float> x = {0.0f, -0.0f, infinity, -infinity, NAN, 1e-40f, -100.0f, 89.5f, -104.5f, 3e38f, 1e-45f};
  on_every_isa([&](team& t) {
    const int64 n = static_cast<int64>(x.size());
    std::vector<float> e(x.size()), l(x.size()), h(x.size()), s(x.size());
    weft::cpu::apply<unary::exp>(t, n, x.data(), e.data());
    weft::cpu::apply<unary::log>(t, n, x.data(), l.data());
    weft::cpu::apply<unary::tanh>(t, n, x.data(), h.data());
    weft::cpu::apply<unary::sigmoid>(t, n, x.data(), s.data());
    CHECK(e[0] == 1);
    CHECK(e[2] == infinity);
    CHECK(e[3] == 0);
    CHECK(std::isnan(e[4]));
    CHECK(e[6] == doctest::Approx(3.783506e-44).epsilon(0.02));  // 27 steps of 2^-149: half a step is 2 %
    CHECK(e[7] == infinity);
    CHECK(e[8] == 0);
    CHECK(l[0] == -infinity);
    CHECK(l[1] == -infinity);
    CHECK(l[2] == infinity);
    CHECK(std::isnan(l[3]));
    CHECK(std::isnan(l[4]));
    CHECK(l[5] == doctest::Approx(std::log(1e-40f)).epsilon(1e-6));
    CHECK(l[10] == doctest::Approx(std::log(1e-45f)).epsilon(1e-6));
    CHECK(h[2] == 1);
    CHECK(h[3] == -1);
    CHECK(std::isnan(h[4]));
    CHECK(std::signbit(h[1]));
    CHECK(s[2] == 1);
    CHECK(s[3] == 0);
    CHECK(std::isnan(s[4]));
    return s;
  });
}

TEST_CASE_TEMPLATE("binary functions of scalars, and of too many dimensions", T, double, float, bf16, fp16) {
  team t;
  const T two = make<T>(2), three = make<T>(3);
  T y{};
  weft::cpu::apply(t, binary::add, 0, nullptr, &two, nullptr, &three, nullptr, &y);
  CHECK(static_cast<double>(y) == 5);
  CHECK_THROWS_AS(weft::cpu::apply(t, binary::add, 9, nullptr, &two, nullptr, &three, nullptr, &y), weft::failure);
}

TEST_CASE("convert from integers") {
  team t;
  const std::vector<std::int32_t> whole = {-3, 0, 70000};
  std::vector<float> as_float(3);
  weft::cpu::convert(t, 3, whole.data(), as_float.data());
  CHECK(as_float == std::vector<float>{-3, 0, 70000});
}

TEST_CASE("vector conversion to 16 bits rounds exactly like the scalar one") {
  std::vector<float> x;
  generator source(13);
  for (int i = 0; i < 200000; ++i) {
    const auto bits = static_cast<std::uint32_t>(source.bits());
    float v;
    std::memcpy(&v, &bits, 4);
    x.push_back(v);
  }
  for (int i = 0; i < 0x10000; ++i) x.push_back(fp16::from_bits(static_cast<std::uint16_t>(i)));
  on_every_isa([&](team& t) {
    std::vector<bf16> b(x.size());
    std::vector<fp16> h(x.size());
    weft::cpu::convert(t, static_cast<int64>(x.size()), x.data(), b.data());
    weft::cpu::convert(t, static_cast<int64>(x.size()), x.data(), h.data());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool nan = std::isnan(x[i]);
      wrong += nan ? !std::isnan(static_cast<float>(b[i])) : b[i].bits != bf16(x[i]).bits;
      wrong += nan ? !std::isnan(static_cast<float>(h[i])) : h[i].bits != fp16(x[i]).bits;
    }
    CHECK(wrong == 0);
    return b;
  });
}
