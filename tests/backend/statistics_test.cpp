// Statistics of arrays, with and without NaN and infinity in them, against loops in double.
#include <weft/backend/cpu/statistics.hpp>

#include "kernel_testing.hpp"

using namespace testing;
using weft::array_statistics;

namespace {

// Elements that are not finite: the first, the last, and about one in 40 between.
template <class T>
std::vector<T> with_faults(int64 n) {
  auto x = numbers<T>(n, 5, -3, 2);
  const double bad[] = {NAN, INFINITY, -INFINITY};
  for (int64 i = 0; i < n; i += 1 + i % 79) x[i] = make<T>(bad[i % 3]);
  if (n > 0) x[n - 1] = make<T>(-INFINITY);
  return x;
}

template <class T>
void check_statistics(const std::vector<T>& x) {
  array_statistics want;
  for (const T element : x) {
    const double v = static_cast<double>(element);
    ++want.elements;
    if (!std::isfinite(v))
      ++want.not_finite;
    else
      want.squares += v * v, want.lowest = std::fmin(want.lowest, v), want.highest = std::fmax(want.highest, v);
  }
  on_every_isa([&](team& t) {
    const array_statistics got = weft::cpu::statistics(t, static_cast<int64>(x.size()), x.data());
    CHECK(std::fabs(got.squares - want.squares) <=
          1e-13 * want.squares);  // 1e5 positive terms in double, in another order
    CHECK(got.lowest == want.lowest);
    CHECK(got.highest == want.highest);
    CHECK(got.elements == want.elements);
    CHECK(got.not_finite == want.not_finite);
    return std::vector<array_statistics>{got};
  });
}

}  // namespace

TEST_CASE_TEMPLATE("statistics are over the finite elements, and count the others", T, double, float, bf16, fp16) {
  for (const int64 n : {0, 1, 2, 37, 1024, 100003}) {
    check_statistics(numbers<T>(n, 8));
    check_statistics(with_faults<T>(n));
    check_statistics(std::vector<T>(static_cast<std::size_t>(n), make<T>(NAN)));
  }
  check_statistics(numbers<T>(500, 9, 1, 2));  // all above 0, so that a padding zero would be the lowest
  check_statistics(numbers<T>(499, 9, -2, -1));
}

TEST_CASE_TEMPLATE("what is not finite becomes zero, and nothing else changes", T, double, float, bf16, fp16) {
  for (const int64 n : {0, 1, 2, 37, 1024, 100003}) {
    const auto x = with_faults<T>(n);
    int64 want = 0;
    std::vector<T> kept = x;
    for (T& element : kept)
      if (!std::isfinite(static_cast<double>(element))) element = make<T>(0), ++want;
    on_every_isa([&](team& t) {
      std::vector<T> got = x;
      CHECK(weft::cpu::zero_not_finite(t, n, got.data()) == want);
      CHECK(same_bits(got, kept));
      return got;
    });
  }
}

TEST_CASE("statistics of two arrays join, and scale with the array") {
  array_statistics a{4, -2, 0, 3, 1};
  a.join({9, -1, 3, 2, 0});
  a.join({});
  a.scale(0.5);
  CHECK(a.squares == 13.0 / 4);
  CHECK(a.lowest == -1);
  CHECK(a.highest == 1.5);
  CHECK(a.elements == 5);
  CHECK(a.not_finite == 1);
}
