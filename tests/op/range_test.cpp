// What a type can't hold on the way to what it can: quotients and their slopes, factors of a loss, whole numbers, one
// row that is taken many times.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
template <class T>
using row = tensor<T, dims<hidden>>;

// f(x) and its slope at a number, in three elements.
template <class T, class F>
void check(F&& f, double at, double value, double slope) {
  launch<strategy<mesh<>>>({}, [&](context& ctx) {
    auto x = full<row<T>>(ctx, {3}, at).requires_grad();
    const auto y = f(x);
    backward(sum(y));
    const double step = std::same_as<T, float> ? 1e-6 : std::same_as<T, fp16> ? 2e-3 : 1.6e-2;
    for (int i = 0; i < 3; ++i) {
      CHECK(std::abs(static_cast<double>(on_host(y)[i]) / value - 1) < step);
      CHECK(std::abs(static_cast<double>(on_host(x.grad())[i]) / slope - 1) < step);
    }
  });
}
}  // namespace

TEST_CASE("a number over a tensor, where the tensor's type has no such number") {
  check<fp16>([](const auto& x) { return 1e6 / x; }, 1000, 1000, -1);
  check<fp16>([](const auto& x) { return 1e-6 / x; }, 0x1p-10, 1e-6 * 0x1p10, -1e-6 * 0x1p20);
  check<float>([](const auto& x) { return 1e40 / x; }, 1e30, 1e10, -1e-20);
  check<float>([](const auto& x) { return 1e-50 / x; }, 1e-30, 1e-20, -1e10);
  check<bf16>([](const auto& x) { return 1e40 / x; }, 1e30, 1e10, -1e-20);
  check<float>([](const auto& x) { return -3.0 / x; }, 2, -1.5, 0.75);
  check<double>([](const auto& x) { return 1e300 / x; }, 1e200, 1e100, -1e-100);
}

TEST_CASE("a quotient's slopes, where a product with its gradient overflows") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto a = full<row<fp16>>(ctx, {3}, 40000).requires_grad(), b = full<row<fp16>>(ctx, {3}, 1000).requires_grad();
    backward(sum(scale(a / b, 1000)));
    CHECK(float(on_host(a.grad())[0]) == 1);
    CHECK(float(on_host(b.grad())[0]) == -40);
    b.zero_grad();
    backward(sum(40000.0 / scale(b, 1)), 1000);  // of the divisor alone
    CHECK(float(on_host(b.grad())[0]) == -40);
  });
}

TEST_CASE("a quotient's slopes that nobody looks at are 0, whatever the quotient is") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    const auto mask = from_global<row<fp16>>(ctx, {2}, std::vector<fp16>{fp16(1.f), fp16(0.f)}) > 0.5;
    auto a = full<row<fp16>>(ctx, {2}, 1000).requires_grad();
    auto b = from_global<row<fp16>>(ctx, {2}, std::vector<fp16>{fp16(2.f), fp16(0.01f)}).requires_grad();
    backward(sum(where(mask, a / b, a)));
    CHECK(float(on_host(b.grad())[0]) == -250);
    CHECK(float(on_host(b.grad())[1]) == 0);
    CHECK(float(on_host(a.grad())[1]) == 1);
    b.zero_grad();
    backward(sum(where(mask, 1000.0 / b, b)));
    CHECK(float(on_host(b.grad())[1]) == 1);
    auto small = full<row<fp16>>(ctx, {2}, 2.4e-5), c = full<row<fp16>>(ctx, {2}, 1000).requires_grad();
    backward(sum(scale(small / c, 65000)));  // the quotient itself is none of fp16's numbers
    CHECK(std::abs(double(float(on_host(c.grad())[0])) / -1.56e-6 - 1) < 0.03);
  });
}

TEST_CASE("a loss's factor is of its type: infinite beyond it, which a loss scale sees, and refused where it is 0") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto x = full<row<fp16>>(ctx, {2}, 0.001).requires_grad();
    CHECK_THROWS_WITH_AS(backward(sum(x), 1e-9), doctest::Contains("fp16, the loss's type, rounds this factor to 0"),
                         failure);
    backward(sum(x), 65536);
    CHECK(std::isinf(float(on_host(x.grad())[0])));
    x.zero_grad();
    CHECK_NOTHROW(backward(sum(x), 32768));
    CHECK_NOTHROW(backward(sum(x), 0));
  });
}

TEST_CASE("a whole number is rounded to 16 bits once") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    const std::int64_t above = (1ll << 40) + (1ll << 32) + 1, far = (1ll << 62) + (1ll << 54) + 1, below = far - 2;
    const std::vector<std::int64_t> numbers = {above, -above, far, -far, below, 257, (1ll << 11) + 1};
    const auto x = from_global<row<std::int64_t>>(ctx, {7}, numbers);
    const double up = 0x1p40 + 0x1p33, up_far = 0x1p62 + 0x1p55;
    const std::vector<double> rounded = {up, -up, up_far, -up_far, 0x1p62, 256, 0x1p11};
    const auto y = on_host(cast<bf16>(x));
    for (std::size_t i = 0; i < rounded.size(); ++i) {
      CHECK(static_cast<double>(float(y[i])) == rounded[i]);
      CHECK(static_cast<double>(float(bf16(numbers[i]))) == rounded[i]);
    }
    CHECK(float(on_host(cast<fp16>(x))[6]) == 0x1p11f);
    CHECK(std::isinf(float(on_host(cast<fp16>(x))[0])));
  });
}

TEST_CASE("a row that is taken seventy thousand times gets the sum of its gradients") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    constexpr std::int64_t n = 70001;
    auto x = full<tensor<float, dims<vocab>>>(ctx, {3}, 1).requires_grad();
    const auto factor = full<tensor<float, dims<batch>>>(ctx, {n}, 0.1);
    backward(sum(take<vocab>(x, full<tensor<std::int32_t, dims<batch>>>(ctx, {n}, 1)) * factor));
    CHECK(std::abs(on_host(x.grad())[1] / (n * double(0.1f)) - 1) < 1e-7);
  });
}
