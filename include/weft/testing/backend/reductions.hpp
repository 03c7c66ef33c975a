// Laws of a backend's reductions over any dimensions, their way back, and what is said of a whole array.
// Invariant: every choice of dimensions is tried, those with no element too.
#pragma once

#include <weft/testing/backend/bench.hpp>

namespace weft::testing {
namespace detail::kernels {

using extent_list = std::vector<int64>;
inline int64 product(const extent_list& e) {
  int64 n = 1;
  for (const int64 x : e) n *= x;
  return n;
}
/// Where element i of an array lies once the dimensions in `mask` are gone.
inline std::size_t reduced_index(const extent_list& e, unsigned mask, int64 i) {
  int64 out = 0, stride = 1;
  for (std::size_t d = e.size(); d-- > 0;) {
    const int64 rest = i / e[d];
    if (!(mask >> d & 1)) out += (i - rest * e[d]) * stride, stride *= e[d];
    i = rest;
  }
  return at(out);
}
inline int64 kept_elements(const extent_list& e, unsigned mask) {
  int64 n = 1;
  for (std::size_t d = 0; d < e.size(); ++d) n *= mask >> d & 1 ? 1 : e[d];
  return n;
}

template <reduce Kind, class T, class Out, class B>
void reduced(bench<B>& b, const extent_list& e) {
  const auto x = numbers<T>(product(e), 1);
  const buffer<B, T> in(b, x);
  const int ndim = static_cast<int>(e.size());
  for (unsigned mask = 0; mask < 1u << ndim; ++mask) {
    bool gone[8] = {};
    for (int d = 0; d < ndim; ++d) gone[d] = mask >> d & 1;
    doubles want(at(kept_elements(e, mask)), Kind == reduce::sum ? 0 : Kind == reduce::max ? -INFINITY : INFINITY);
    for (std::size_t i = 0; i < x.size(); ++i) {
      double& y = want[reduced_index(e, mask, static_cast<int64>(i))];
      const double v = static_cast<double>(x[i]);
      y = Kind == reduce::sum ? y + v : Kind == reduce::max ? std::fmax(y, v) : std::fmin(y, v);
    }
    // Terms below 2 of either sign: partial sums near sqrt(n). A serial loop's n additions are allowed for up to 300;
    // more are expected to be added in blocks. A maximum is exact but for its rounding to Out.
    const double terms = want.empty() ? 0 : static_cast<double>(x.size()) / static_cast<double>(want.size());
    const double absolute =
        Kind == reduce::sum ? 4 * std::sqrt(terms) * std::fmin(terms + 1, 300) * sum_rounding<T> : 0;
    const auto call = [&](Out* y, bool add) {
      B::template reduce_dims<Kind>(b.queue(), ndim, e.data(), gone, in.in(), y, add);
    };
    if (Kind == reduce::sum) {
      writes_and_adds<Out>(b, "sum", want, rounding<Out>, absolute, call);
    } else {
      const buffer<B, Out> y(b, static_cast<int64>(want.size()));
      call(y.out(), false);
      b.near(Kind == reduce::max ? "maximum" : "minimum", y.host(), want, rounding<Out>, 0);
    }
  }
}

template <class T, class Out, class B>
void reductions(bench<B>& b) {
  constexpr bool there = reduction_kernel<B, T, Out>;
  if (!b.has(there, sizeof(Out) == sizeof(T) ? "reduce_dims" : "reduce_dims to its sums' type", dtype_of<T>)) return;
  if constexpr (there)
    for (const extent_list& e : {extent_list{},
                                 {1},
                                 {5},
                                 {40000},
                                 {3, 70},
                                 {70, 3},
                                 {2, 3, 4, 5},
                                 {1, 30, 1, 40},
                                 {4, 50, 2, 33},
                                 {3, 1100},
                                 {130, 36},
                                 {4200, 32},
                                 {3, 0}}) {
      reduced<reduce::sum, T, Out>(b, e);
      reduced<reduce::max, T, Out>(b, e);
      reduced<reduce::min, T, Out>(b, e);
    }
}

template <class T, class B>
void repeated(bench<B>& b) {
  constexpr bool there = repeat_kernel<B, T>;
  if (!b.has(there, "repeat", dtype_of<T>)) return;
  if constexpr (there)
    for (const extent_list& e : {extent_list{},
                                 {1},
                                 {5},
                                 {40000},
                                 {3, 70},
                                 {70, 3},
                                 {1, 30, 1, 40},
                                 {4, 50, 2, 33},
                                 {3, 0, 2},
                                 {2, 3, 2, 3, 2, 3, 2, 2}})
      for (unsigned mask = 0; mask < 1u << e.size(); ++mask) {
        bool gone[8] = {};
        for (std::size_t d = 0; d < e.size(); ++d) gone[d] = mask >> d & 1;
        const auto y = numbers<T>(kept_elements(e, mask), 1);
        doubles want;
        for (int64 i = 0; i < product(e); ++i) want.push_back(static_cast<double>(y[reduced_index(e, mask, i)]));
        const buffer<B, T> in(b, y);
        writes_and_adds<T>(b, "x = y repeated", want, 0, 0, [&](T* x, bool add) {
          B::repeat(b.queue(), static_cast<int>(e.size()), e.data(), gone, in.in(), x, add);
        });
      }
}

/// n numbers of which the first, the last and about one in 40 between are not finite.
template <class T>
std::vector<T> with_faults(int64 n) {
  auto x = numbers<T>(n, 5, -3, 2);
  const double bad[] = {std::nan(""), INFINITY, -INFINITY};
  for (int64 i = 0; i < n; i += 1 + i % 79) x[at(i)] = make<T>(bad[i % 3]);
  if (n > 0) x[at(n - 1)] = make<T>(-INFINITY);
  return x;
}

template <class T, class B>
void whole_arrays(bench<B>& b) {
  constexpr bool there = statistics_kernels<B, T>;
  if (!b.has(there, "sum_of_squares, statistics and zero_not_finite", dtype_of<T>)) return;
  if constexpr (there)
    for (const int64 n : {0, 1, 2, 37, 1024, 100003})
      for (const bool faults : {false, true}) {
        const auto x = faults ? with_faults<T>(n) : numbers<T>(n, 8, n % 2 ? 1 : -2, n % 2 ? 2 : -1);
        array_statistics want;
        doubles zeroed;
        for (const T element : x) {
          const double v = static_cast<double>(element);
          ++want.elements;
          zeroed.push_back(std::isfinite(v) ? v : 0);
          if (!std::isfinite(v))
            ++want.not_finite;
          else
            want.squares += v * v, want.lowest = std::fmin(want.lowest, v), want.highest = std::fmax(want.highest, v);
        }
        const buffer<B, T> in(b, x);
        // 1e5 positive terms in double, in another order
        if (!faults)
          writes_and_adds<double>(b, "sum of squares", {want.squares}, 1e-13, 0,
                                  [&](double* to, bool add) { B::sum_of_squares(b.queue(), n, in.in(), to, add); });
        const array_statistics got = B::statistics(b.queue(), n, in.in());
        b.must(std::fabs(got.squares - want.squares) <= 1e-13 * want.squares && got.lowest == want.lowest &&
                   got.highest == want.highest && got.elements == want.elements && got.not_finite == want.not_finite,
               "statistics of ", n, " numbers, of which ", want.not_finite, " are not finite: squares ", got.squares,
               ", from ", got.lowest, " to ", got.highest, ", ", got.elements, " elements, ", got.not_finite,
               " not finite; they are squares ", want.squares, ", from ", want.lowest, " to ", want.highest);
        b.must(B::zero_not_finite(b.queue(), n, in.out()) == want.not_finite, "it counts another number than ",
               want.not_finite);
        b.near("finite elements stay, others become 0", in.host(), zeroed, 0, 0);
      }
}

}  // namespace detail::kernels

/// The laws of `reduce_dims`, `repeat`, `sum_of_squares`, `statistics` and `zero_not_finite` of backend B, for element
/// types Ts and the types that their sums are kept in. Throws weft::failure with the first kernel that is wrong.
template <class B, class... Ts>
backend_report check_reduction_kernels(int threads = 1) {
  return detail::kernels::each_type<B, Ts...>(threads, []<class T>(auto& b) {
    detail::kernels::reductions<T, T>(b);
    if constexpr (sizeof(T) == 2) detail::kernels::reductions<T, accumulate_t<T>>(b);
    detail::kernels::repeated<T>(b);
    detail::kernels::whole_arrays<T>(b);
  });
}

}  // namespace weft::testing
