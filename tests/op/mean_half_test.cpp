// Means in 16 bits are rounded once, after the division: a sum that 16 bits can't hold is never made.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

constexpr std::int64_t rows = 3, columns = 70000;  // fp16 ends at 65504

double value_at(std::int64_t i) { return 1 + double(i % 7) / 8; }

template <class T>
double exact(std::int64_t row) {
  double all = 0;
  for (std::int64_t c = 0; c < columns; ++c) all += value_at(row * columns + c);
  return double(float(T(float(all / columns))));
}

template <class T, class... Placements>
void check(int ranks) {
  launch<strategy<mesh<tp>>>({.tp = ranks}, [](context& ctx) {
    auto x = generate<tensor<T, dims<seq, hidden>, Placements...>>(ctx, {rows, columns}, value_at).requires_grad();
    const auto y = mean<hidden>(x);
    const auto whole = [&] {
      if constexpr (sizeof...(Placements) == 0)
        return y;
      else
        return all_reduce<tp>(y);
    }();
    const int n = ctx.degree<tp>();
    for (std::int64_t r = 0; r < rows; ++r) {
      // On several ranks each addend and their sum are rounded once.
      const double off = std::abs(double(float(whole.local_share()[r])) - exact<T>(r));
      CHECK(off <= (n == 1 ? 0 : 1.5 * std::pow(2.0, std::is_same_v<T, fp16> ? -10 : -7)));
    }
    backward(sum(y), 4096.0);
    const auto g = x.grad();
    std::int64_t others = 0;
    for (const T d : g.local_share()) others += float(d) != float(T(float(4096.0 / columns)));
    CHECK(others == 0);
    CHECK(g.local_elements() == rows * columns / n);
  });
}
}  // namespace

TEST_CASE("a mean in 16 bits is the rounded mean, however many numbers it is of") {
  check<fp16>(1);
  check<bf16>(1);
}
TEST_CASE("a mean in 16 bits over a sharded dimension: each addend is divided before it is rounded") {
  check<fp16, shard<hidden, tp>>(2);
  check<bf16, shard<hidden, tp>>(4);
}
TEST_CASE("a recomputed mean is the same mean") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto x = generate<tensor<fp16, dims<seq, hidden>>>(ctx, {rows, columns}, value_at).requires_grad();
    const auto f = [](const auto& h) { return silu(mean<hidden>(h)); };
    const auto y = checkpoint<checkpoint_full>(f, x);
    backward(sum(y), 4096.0);
    const auto g = x.grad();
    const double m = exact<fp16>(0), s = 1 / (1 + std::exp(-m));
    CHECK(double(float(g.local_share()[0])) == doctest::Approx(4096 * s * (1 + m * (1 - s)) / columns).epsilon(2e-3));
  });
}
