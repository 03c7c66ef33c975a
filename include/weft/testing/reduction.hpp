// The law of what reductions compute, with numbers whose sums depend on order and rounding, integers that wrap, and
// NaN. Invariant: what is due is folded here, from every rank's input, which each rank can make; no collective tells
// it.
#pragma once

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <weft/testing/collective.hpp>

namespace weft::testing::detail::collectives {

/// Input element i of rank r: any integer; floats of either sign, so far apart that orders of summation differ, and NaN
/// at every fifth place, on at most one rank.
template <class T>
T uneven(std::uint64_t seed, int ranks, int r, std::int64_t i) {
  const std::uint64_t h = mix(mix(seed) ^ mix(std::uint64_t(r) << 40 | std::uint64_t(i)));
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(h);
  } else {
    if (i % 5 == 0 && i / 5 % (ranks + 1) == r) return T(std::numeric_limits<float>::quiet_NaN());
    constexpr bool narrow = sizeof(T) == 2;
    // 256 + 1 + 1 is 256 where bf16 rounds each addition; 2^24 + 1 - 2^24 depends on the order, also in float
    const float big = std::ldexp(1.f, std::is_same_v<T, bf16> ? 8 : narrow ? 11 : std::is_same_v<T, float> ? 24 : 53);
    const float huge = narrow ? 1024.f : 3 * big, tiny = narrow ? std::ldexp(1.f, -15) : 0.125f;
    const std::array<float, 8> all = {big, -big, 1, -1, 1.5f, huge, -huge, tiny};
    return T(all[h % all.size()]);
  }
}

/// The ranks' elements i, folded in the order of ranks: 16-bit floats in float, rounded once; integers wrap.
template <class T>
T folded(reduction how, std::uint64_t seed, int ranks, std::int64_t i) {
  using sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, std::conditional_t<sizeof(T) == 2, float, T>>;
  using each = std::conditional_t<std::is_integral_v<T>, T, sum>;
  each most = static_cast<each>(uneven<T>(seed, ranks, 0, i));
  sum total = static_cast<sum>(most);
  for (int r = 1; r < ranks; ++r) {
    const each x = static_cast<each>(uneven<T>(seed, ranks, r, i));
    total = total + static_cast<sum>(x);
    if (x != x || (how == reduction::max ? x > most : x < most)) most = x;
  }
  return how == reduction::sum ? static_cast<T>(total) : static_cast<T>(most);
}

/// Whether `got` is what a sum in another order, rounded after each addition, may be.
template <class T>
bool near_sum(T got, std::uint64_t seed, int ranks, std::int64_t i) {
  long double total = 0, size = 0;
  for (int r = 0; r < ranks; ++r) {
    const auto x = static_cast<long double>(static_cast<double>(uneven<T>(seed, ranks, r, i)));
    total += x, size += std::abs(x);
  }
  const int digits = std::is_same_v<T, bf16> ? 8 : sizeof(T) == 2 ? 11 : std::is_same_v<T, float> ? 24 : 53;
  return std::abs(static_cast<long double>(static_cast<double>(got)) - total) <= ranks * std::ldexp(size, 1 - digits);
}

template <class T>
std::string digits_of(T x) {
  if constexpr (std::is_integral_v<T>) {
    return std::to_string(x);
  } else {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", static_cast<double>(x));
    return text;
  }
}

/// Whether two numbers are the same: bits, but one NaN is as good as another.
template <class T>
bool same_number(T a, T b) {
  if constexpr (!std::is_integral_v<T>) {
    if (const auto x = static_cast<double>(a), y = static_cast<double>(b); x != x || y != y) return x != x && y != y;
  }
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Throws unless element i, `got`, is what it has to be; `at` is its place in the inputs. `name()` is what to call it.
template <class T, class Name>
void must_be_reduction(const Name& name, bool in_order, T got, reduction how, std::uint64_t seed, int ranks,
                       std::int64_t i, std::int64_t at) {
  const T due = folded<T>(how, seed, ranks, at);
  if (same_number(got, due)) return;
  if constexpr (!std::is_integral_v<T>) {
    const auto x = static_cast<double>(due);
    if (how == reduction::sum && !in_order && x == x && near_sum(got, seed, ranks, at)) return;
  }
  std::string of;
  for (int r = 0; r < ranks && r < 8; ++r) of += (r ? ", " : "") + digits_of(uneven<T>(seed, ranks, r, at));
  const char* rule = how != reduction::sum   ? "a NaN on any rank makes it NaN"
                     : std::is_integral_v<T> ? "integers wrap"
                     : !in_order             ? "or nearly, in any order"
                     : sizeof(T) == 2        ? "added in the order of ranks, in float, and rounded once"
                                             : "added in the order of ranks";
  fail(name(), ": element ", i, " is ", digits_of(got), " where ", digits_of(due), " is due, of the ranks' ", of,
       ranks > 8 ? ", ..." : "", ": ", rule,
       !std::is_integral_v<T> && how == reduction::sum && in_order
           ? " (a communicator that can't promise this says static constexpr bool reduces_in_rank_order = false)"
           : "");
}

/// all_reduce and reduce_scatter in every type: what is due, and the same bits on every rank.
template <class C>
void every_reduction(C& c, std::uint64_t seed) {
  const int ranks = c.size(), rank = c.rank();
  const auto one = [&]<class T>(T, dtype type, reduction how, std::int64_t n, bool in_place) {
    seed = mix(seed);
    const auto name = [&](const char* what) {
      return weft::detail::text(what, " of ", n, " ", name_of(type), " ", name_of(how), in_place ? " in place" : "",
                                " on rank ", rank, " of ", ranks);
    };
    const auto compare = [&](const char* what, T got, std::int64_t i, std::int64_t at) {
      must_be_reduction([&] { return name(what); }, reduces_in_rank_order<C>, got, how, seed, ranks, i, at);
    };
    const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    std::vector<T> in(size(n * ranks)), out(size(n)), all(size(n * ranks));
    for (std::int64_t i = 0; i < n * ranks; ++i) in[size(i)] = uneven<T>(seed, ranks, rank, i);
    T* const part = in_place ? in.data() + rank * n : out.data();
    c.reduce_scatter(in.data(), part, n, type, how).wait();
    for (std::int64_t i = 0; i < n; ++i) compare("reduce_scatter", part[i], i, rank * n + i);
    for (std::int64_t i = 0; i < n; ++i) in[size(i)] = uneven<T>(seed, ranks, rank, i);
    T* const whole = in_place ? in.data() : out.data();
    c.all_reduce(in.data(), whole, n, type, how).wait();
    c.all_gather(whole, all.data(), n * static_cast<std::int64_t>(sizeof(T))).wait();
    for (std::int64_t i = 0; i < n * ranks; ++i)
      if (!same_number(all[size(i)], all[size(i % n)]))
        fail(name("all_reduce"), ": ranks get different bits: element ", i % n, " is ", digits_of(all[size(i % n)]),
             " on rank 0 and ", digits_of(all[size(i)]), " on rank ", i / n);
    for (std::int64_t i = 0; i < n; ++i) compare("all_reduce", whole[i], i, i);
  };
  for (const std::int64_t n : {5, 300, 2100})
    for (const dtype type : dtypes)
      for (const reduction how : reductions)
        for (const bool in_place : {false, true})
          visit_dtype(type, [&]<class T>() { one(T(), type, how, n, in_place); });
}

}  // namespace weft::testing::detail::collectives
