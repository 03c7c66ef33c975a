// Element-wise kernels against the C library in double.
#include <weft/backend/cpu/broadcast.hpp>
#include <weft/backend/cpu/elementwise.hpp>

#include "kernel_testing.hpp"

using namespace testing;
using weft::binary;
using weft::unary;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double exact(unary f, double x) {
  switch (f) {
    case unary::identity:
      return x;
    case unary::negate:
      return -x;
    case unary::exp:
      return std::exp(x);
    case unary::log:
      return std::log(x);
    case unary::sqrt:
      return std::sqrt(x);
    case unary::rsqrt:
      return 1 / std::sqrt(x);
    case unary::reciprocal:
      return 1 / x;
    case unary::square:
      return x * x;
    case unary::abs:
      return std::fabs(x);
    case unary::tanh:
      return std::tanh(x);
    case unary::sigmoid:
      return sigmoid(x);
    case unary::relu:
      return x > 0 ? x : 0;
    case unary::silu:
      return x * sigmoid(x);
    case unary::gelu:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case unary::gelu_exact:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  }
  return 0;
}

constexpr unary functions[] = {unary::identity, unary::negate,     unary::exp,    unary::log,  unary::sqrt,
                               unary::rsqrt,    unary::reciprocal, unary::square, unary::abs,  unary::tanh,
                               unary::sigmoid,  unary::relu,       unary::silu,   unary::gelu, unary::gelu_exact};

bool wants_positive(unary f) {
  return f == unary::log || f == unary::sqrt || f == unary::rsqrt || f == unary::reciprocal;
}

double exact(binary f, double a, double b) {
  switch (f) {
    case binary::add:
      return a + b;
    case binary::subtract:
      return a - b;
    case binary::multiply:
      return a * b;
    case binary::divide:
      return a / b;
    case binary::maximum:
      return a > b ? a : b;
    case binary::minimum:
      return a < b ? a : b;
  }
  return 0;
}
constexpr binary operations[] = {binary::add,    binary::subtract, binary::multiply,
                                 binary::divide, binary::maximum,  binary::minimum};

// The kernels of a function that is known while the program runs.
template <class F, std::size_t... I>
void with_function(unary f, F&& call, std::index_sequence<I...>) {
  ((functions[I] == f ? call.template operator()<functions[I]>() : void()), ...);
}
using all_functions = std::make_index_sequence<std::size(functions)>;
template <class T>
void apply(team& t, unary f, int64 n, const T* x, T* y) {
  with_function(
      f, [&]<unary F>() { weft::cpu::apply<F>(t, n, x, y); }, all_functions());
}
template <class T>
void apply_backward(team& t, unary f, int64 n, const T* x, const T* dy, T* dx, bool add) {
  with_function(
      f, [&]<unary F>() { weft::cpu::apply_backward<F>(t, n, x, dy, dx, add); }, all_functions());
}

}  // namespace

TEST_CASE_TEMPLATE("unary functions and their derivatives", T, double, float, bf16, fp16) {
  for (const unary f : functions)
    for (const int64 n : {1, 15, 64, 1037, 40000}) {
      const auto x = numbers<T>(n, 1, wants_positive(f) ? 0.1 : -5, 5);
      const auto dy = numbers<T>(n, 2), old = numbers<T>(n, 3);
      doubles y(x.size()), dx(x.size()), dx_added(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double v = x[i], h = 1e-5;
        y[i] = exact(f, v);
        double slope = (exact(f, v + h) - exact(f, v - h)) / (2 * h);
        if (f == unary::abs || f == unary::relu) slope = v > 0 ? 1 : f == unary::relu ? 0 : -1;
        dx[i] = slope * static_cast<double>(dy[i]);
        dx_added[i] = dx[i] + static_cast<double>(old[i]);
      }
      INFO("function " << static_cast<int>(f) << " n " << n);
      // One rounding to T, and up to 16 roundings in the accumulate type (gelu cancels 1 + tanh near -5: absolute
      // part). The finite difference is good to 1e-9 for |f'''| < 1000 at h = 1e-5 (rsqrt near 0.1: 15/8 * 0.1^-3.5 =
      // 6000).
      const double relative = rounding<T> + 16 * sum_rounding<T>, absolute = 16 * sum_rounding<T>;
      on_every_isa([&](team& t) {
        std::vector<T> got(x.size()), gradient(x.size()), added = old;
        apply(t, f, n, x.data(), got.data());
        check_close(got, y, relative, absolute);
        apply_backward(t, f, n, x.data(), dy.data(), gradient.data(), false);
        check_close(gradient, dx, relative + 1e-6 * (sizeof(T) > 4), absolute + 1e-6);
        apply_backward(t, f, n, x.data(), dy.data(), added.data(), true);
        check_close(added, dx_added, relative + 1e-6 * (sizeof(T) > 4), 2 * absolute + 1e-6);
        got.insert(got.end(), gradient.begin(), gradient.end());
        return got;
      });
    }
}

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

TEST_CASE_TEMPLATE("binary functions, of one shape and broadcast", T, double, float, bf16, fp16) {
  const double relative = rounding<T> + 2 * sum_rounding<T>;  // exact operands, one operation, one rounding to T
  for (const binary f : operations) {
    for (const int64 n : {1, 17, 513, 20000}) {
      const auto a = numbers<T>(n, 5), b = numbers<T>(n, 6, 0.5, 3);
      doubles y(a.size());
      for (std::size_t i = 0; i < a.size(); ++i) y[i] = exact(f, a[i], b[i]);
      on_every_isa([&](team& t) {
        std::vector<T> got(a.size());
        weft::cpu::apply(t, f, n, a.data(), b.data(), got.data());
        check_close(got, y, relative, 1e-30);
        return got;
      });
    }
    const int64 extents[] = {3, 5, 7, 33};
    struct layout {
      int64 a[4], b[4];
    };
    const layout layouts[] = {{{1155, 231, 33, 1}, {0, 0, 0, 1}}, {{1155, 231, 33, 1}, {0, 0, 1, 0}},
                              {{0, 0, 0, 0}, {1155, 231, 33, 1}}, {{1155, 231, 33, 1}, {1, 3, 15, 105}},
                              {{33, 0, 0, 1}, {0, 33, 0, 1}},     {{0, 1, 0, 0}, {0, 0, 0, 1}}};
    const auto a = numbers<T>(3465, 7), b = numbers<T>(3465, 8, 0.5, 3);
    for (const layout& l : layouts) {
      doubles y;
      for (int64 i = 0; i < 3; ++i)
        for (int64 j = 0; j < 5; ++j)
          for (int64 k = 0; k < 7; ++k)
            for (int64 m = 0; m < 33; ++m)
              y.push_back(exact(f, a[i * l.a[0] + j * l.a[1] + k * l.a[2] + m * l.a[3]],
                                b[i * l.b[0] + j * l.b[1] + k * l.b[2] + m * l.b[3]]));
      on_every_isa([&](team& t) {
        std::vector<T> got(3465);
        weft::cpu::apply(t, f, 4, extents, a.data(), l.a, b.data(), l.b, got.data());
        check_close(got, y, relative, 1e-30);
        return got;
      });
    }
  }
  team t;
  const T two = make<T>(2), three = make<T>(3);
  T y{};
  weft::cpu::apply(t, binary::add, 0, nullptr, &two, nullptr, &three, nullptr, &y);  // rank 0
  CHECK(static_cast<double>(y) == 5);
  CHECK_THROWS_AS(weft::cpu::apply(t, binary::add, 9, nullptr, &two, nullptr, &three, nullptr, &y), weft::failure);
}

TEST_CASE_TEMPLATE("scale and fill", T, double, float, bf16, fp16) {
  for (const int64 n : {0, 1, 31, 70001}) {
    const auto x = numbers<T>(n, 9), old = numbers<T>(n, 10);
    doubles y(x.size()), sum(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = 0.37 * static_cast<double>(x[i]);
      sum[i] = y[i] + static_cast<double>(old[i]);
    }
    on_every_isa([&](team& t) {
      std::vector<T> got(x.size()), added = old;
      weft::cpu::scale(t, n, 0.37, x.data(), got.data(), false);
      weft::cpu::scale(t, n, 0.37, x.data(), added.data(), true);
      const double relative = rounding<T> + 2 * sum_rounding<T>;  // the factor, the product, the rounding to T
      check_close(got, y, relative, 1e-30);
      check_close(added, sum, relative, 4 * sum_rounding<T>);  // the sum may cancel
      return added;
    });
    team t(2);
    std::vector<T> filled(x.size());
    weft::cpu::fill(t, n, make<T>(-1.5), filled.data());
    check_close(filled, doubles(x.size(), -1.5), 0, 1e-300);
  }
}

namespace {
template <class To, class From>
void test_convert() {
  const auto x = numbers<From>(1003, 11, -40, 40);
  const auto old = numbers<To>(1003, 12, -40, 40);
  doubles sum(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] = static_cast<double>(x[i]) + static_cast<double>(old[i]);
  on_every_isa([&](team& t) {
    std::vector<To> got(x.size()), added = old;
    weft::cpu::convert(t, 1003, x.data(), got.data());
    weft::cpu::convert(t, 1003, x.data(), added.data(), true);
    // A double goes to 16 bits by way of float, so twice the least.
    check_close(got, widened(x), rounding<To> + 2 * sum_rounding<To>, 1e-30);
    check_close(added, sum, rounding<To> + 2 * sum_rounding<To>, 64 * sum_rounding<To>);
    return added;
  });
}
}  // namespace

TEST_CASE("convert between all element types") {
  test_convert<float, float>();
  test_convert<float, bf16>();
  test_convert<float, fp16>();
  test_convert<float, double>();
  test_convert<bf16, float>();
  test_convert<bf16, bf16>();
  test_convert<bf16, fp16>();
  test_convert<bf16, double>();
  test_convert<fp16, float>();
  test_convert<fp16, bf16>();
  test_convert<double, float>();
  test_convert<double, bf16>();
  test_convert<double, double>();
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
