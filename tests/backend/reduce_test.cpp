// Reductions over every choice of dimensions against loops in double, and their way back.
#include <weft/backend/cpu/reduce.hpp>

#include "kernel_testing.hpp"

using namespace testing;
using weft::reduce;

namespace {

using extents = std::vector<int64>;

int64 product(const extents& e) {
  int64 n = 1;
  for (const int64 x : e) n *= x;
  return n;
}

/// Reduces over the dimensions whose bit is set in `mask`; also the number of elements that meet in one result.
doubles exact(reduce kind, const extents& e, unsigned mask, const doubles& x) {
  int64 outputs = 1;
  for (std::size_t d = 0; d < e.size(); ++d) outputs *= mask >> d & 1 ? 1 : e[d];
  doubles y(static_cast<std::size_t>(outputs), kind == reduce::sum ? 0 : kind == reduce::max ? -INFINITY : INFINITY);
  for (int64 i = 0; i < static_cast<int64>(x.size()); ++i) {
    int64 rest = i, at = 0, stride = 1;
    for (int d = static_cast<int>(e.size()) - 1; d >= 0; --d) {
      if (!(mask >> d & 1)) at += rest % e[d] * stride, stride *= e[d];
      rest /= e[d];
    }
    double& out = y[at];
    out = kind == reduce::sum ? out + x[i] : kind == reduce::max ? std::fmax(out, x[i]) : std::fmin(out, x[i]);
  }
  return y;
}

template <class T, class Out>
void test_reduce(const extents& e, std::uint64_t seed) {
  const int64 size = product(e);
  const auto x = numbers<T>(size, seed);
  const int rank = static_cast<int>(e.size());
  for (unsigned mask = 0; mask < 1u << rank; ++mask) {
    bool reduced[8] = {};
    for (int d = 0; d < rank; ++d) reduced[d] = mask >> d & 1;
    const auto test = [&]<reduce kind>() {
      INFO("mask " << mask << " kind " << static_cast<int>(kind) << " rank " << rank);
      const doubles want = exact(kind, e, mask, widened(x));
      const auto old = numbers<Out>(static_cast<int64>(want.size()), 2);
      doubles added = want;
      for (std::size_t i = 0; i < added.size(); ++i) added[i] += static_cast<double>(old[i]);
      // Terms below 2 of either sign: partial sums near sqrt(n); at most about 300 additions follow one another (blocks
      // of 16384 over at least 64 running sums). A maximum is exact but for its rounding to Out.
      const double terms = static_cast<double>(size) / static_cast<double>(want.size() + (want.empty()));
      const double absolute =
          kind == reduce::sum ? 4 * std::sqrt(terms) * std::fmin(terms + 1, 300) * sum_rounding<T> : 1e-300;
      on_every_isa([&](team& t) {
        std::vector<Out> got(want.size()), sum = old;
        weft::cpu::reduce_dims<kind>(t, rank, e.data(), reduced, x.data(), got.data(), false);
        check_close(got, want, rounding<Out>, absolute);
        if (kind == reduce::sum) {
          weft::cpu::reduce_dims<kind>(t, rank, e.data(), reduced, x.data(), sum.data(), true);
          check_close(sum, added, rounding<Out>, absolute + 4 * sum_rounding<T>);
        }
        return got;
      });
    };
    test.template operator()<reduce::sum>();
    test.template operator()<reduce::max>();
    test.template operator()<reduce::min>();
  }
}

/// The way back against loops, bit for bit: every choice of dimensions, written and added.
template <class T>
void test_repeat(const extents& e) {
  const int rank = static_cast<int>(e.size());
  for (unsigned mask = 0; mask < 1u << rank; ++mask) {
    bool reduced[8] = {};
    int64 kept = 1;
    for (int d = 0; d < rank; ++d) reduced[d] = mask >> d & 1, kept *= reduced[d] ? 1 : e[d];
    const auto y = numbers<T>(kept, 1), old = numbers<T>(product(e), 2);
    std::vector<T> want(old.size()), added(old.size());
    for (int64 i = 0; i < product(e); ++i) {
      int64 rest = i, at = 0, stride = 1;
      for (int d = rank - 1; d >= 0; --d) {
        if (!reduced[d]) at += rest % e[d] * stride, stride *= e[d];
        rest /= e[d];
      }
      using A = weft::accumulate_t<T>;
      want[i] = y[at];
      added[i] = T(static_cast<A>(old[i]) + static_cast<A>(y[at]));
    }
    INFO("mask " << mask << " rank " << rank);
    on_every_isa([&](team& t) {
      std::vector<T> got(old.size(), T(7.0f)), sum = old;
      weft::cpu::repeat(t, rank, e.data(), reduced, y.data(), got.data(), false);
      weft::cpu::repeat(t, rank, e.data(), reduced, y.data(), sum.data(), true);
      CHECK(same_bits(got, want));
      CHECK(same_bits(sum, added));
      return got;
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE("repeat along any dimensions", T, double, float, bf16, fp16) {
  for (const extents& e : {extents{},
                           {1},
                           {5},
                           {40000},
                           {3, 70},
                           {70, 3},
                           {1, 30, 1, 40},
                           {4, 50, 2, 33},
                           {3, 0, 2},
                           {2, 3, 2, 3, 2, 3, 2, 2}})
    test_repeat<T>(e);
}

TEST_CASE("reduce over any dimensions") {
  for (const extents& e :
       {extents{}, {1}, {5}, {40000}, {3, 70}, {70, 3}, {2, 3, 4, 5}, {1, 30, 1, 40}, {4, 50, 2, 33}}) {
    test_reduce<float, float>(e, 1);
    test_reduce<bf16, float>(e, 3);
  }
  test_reduce<bf16, bf16>({4, 50, 2, 33}, 4);
  test_reduce<fp16, fp16>({4, 50, 33}, 5);
  test_reduce<double, double>({4, 50, 2, 33}, 6);
  test_reduce<float, float>({3, 1100}, 7);  // more than one run of columns
}

TEST_CASE("reduce of nothing gives the neutral element, and more than 8 dimensions are refused") {
  team t;
  const int64 e[9] = {3, 0, 1, 1, 1, 1, 1, 1, 1};
  const bool reduced[9] = {false, true};
  std::vector<float> y(3, 7.0f);
  weft::cpu::reduce_dims<reduce::sum, float>(t, 2, e, reduced, nullptr, y.data(), false);
  CHECK(y == std::vector<float>{0, 0, 0});
  weft::cpu::reduce_dims<reduce::max, float>(t, 2, e, reduced, nullptr, y.data(), false);
  CHECK(y == std::vector<float>(3, -INFINITY));
  CHECK_THROWS_AS((weft::cpu::reduce_dims<reduce::sum, float>(t, 9, e, reduced, nullptr, y.data(), false)),
                  weft::failure);
  CHECK_THROWS_AS((weft::cpu::repeat<float>(t, 9, e, reduced, nullptr, y.data(), false)), weft::failure);
}

TEST_CASE_TEMPLATE("sum of squares", T, double, float, bf16, fp16) {
  for (const int64 n : {0, 1, 37, 100003}) {
    const auto x = numbers<T>(n, 8);
    double want = 0;
    for (const T v : x) want += static_cast<double>(v) * static_cast<double>(v);
    on_every_isa([&](team& t) {
      const double got = weft::cpu::sum_of_squares(t, n, x.data());
      CHECK(std::fabs(got - want) <= 1e-13 * want);  // sums of 1e5 positive terms in double, squares of float exact
      return std::vector<double>{got};
    });
  }
}
