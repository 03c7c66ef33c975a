// What the kernel tests share: random arrays, every instruction set of this machine, comparison with a double.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/backend/cpu/isa.hpp>
#include <weft/backend/cpu/team.hpp>
#include <weft/core/dtype.hpp>

namespace weft_test {

using weft::bf16;
using weft::fp16;
using weft::cpu::isa;
using weft::cpu::team;
using int64 = std::int64_t;
using doubles = std::vector<double>;

/// Largest relative error of rounding to T: 2^-p for p significant bits.
template <class T>
inline constexpr double rounding = 0x1p-53;
template <>
inline constexpr double rounding<float> = 0x1p-24;
template <>
inline constexpr double rounding<bf16> = 0x1p-8;
template <>
inline constexpr double rounding<fp16> = 0x1p-11;
/// The same for the type sums are kept in.
template <class T>
inline constexpr double sum_rounding = sizeof(T) == 8 ? 0x1p-53 : 0x1p-24;

class generator {
 public:
  explicit generator(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t bits() {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

template <class T>
T make(double x) {
  if constexpr (sizeof(T) == 2) {
    return T(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

/// n numbers of T in [low, high).
template <class T>
std::vector<T> numbers(int64 n, std::uint64_t seed, double low = -2, double high = 2) {
  generator source(seed);
  std::vector<T> out(static_cast<std::size_t>(n));
  for (T& x : out) x = make<T>(source.uniform(low, high));
  return out;
}

template <class T>
doubles widened(const std::vector<T>& x) {
  return doubles(x.begin(), x.end());
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Every element within relative * |want| + absolute. Reports the worst one.
template <class T>
void check_close(const std::vector<T>& got, const doubles& want, double relative, double absolute) {
  REQUIRE(got.size() == want.size());
  double worst = -1;
  std::size_t at = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(got[i]) - want[i]);
    const double excess = difference / (relative * std::fabs(want[i]) + absolute);
    if (!(excess <= worst)) worst = excess, at = i;  // NaN counts as worst
    if (std::isnan(excess)) break;
  }
  if (got.empty()) return;
  INFO("element " << at << " of " << got.size() << ": got " << static_cast<double>(got[at]) << ", want " << want[at]
                  << ", isa " << weft::cpu::name_of(weft::cpu::current_isa()));
  CHECK(worst <= 1.0);
}

/// Runs f(team) for every instruction set here; teams of 1 and 3 must produce the same bits. f returns what it
/// computed.
template <class F>
void on_every_isa(F f) {
  for (const isa level : {isa::portable, isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx}) {
    if (!weft::cpu::has_isa(level)) continue;
    const isa before = weft::cpu::use_isa(level);
    team one(1), three(3);
    const auto alone = f(one);
    const auto shared = f(three);
    INFO("isa " << weft::cpu::name_of(level));
    CHECK(same_bits(alone, shared));
    weft::cpu::use_isa(before);
  }
}

}  // namespace weft_test
