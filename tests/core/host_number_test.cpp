#include <sstream>

#include <doctest/doctest.h>

#include <weft/core/host_number.hpp>

using namespace weft;

namespace {

constexpr varying<std::int64_t> own(3);
constexpr degree_of<> four(4);

TEST_CASE("what is computed with a rank's own number is one, and compares and prints as what it is") {
  static_assert(std::same_as<decltype(own + 1), varying<std::int64_t>>);
  static_assert(std::same_as<decltype(2.0 * own), varying<double>>);
  static_assert(std::same_as<decltype(own / four), varying<std::int64_t>>);
  static_assert((own + 1).here() == 4 && (7 - own).here() == 4 && (own % 2).here() == 1 && (-own).here() == -3);
  static_assert(own == 3 && 2 < own && own < four && own != four);
  std::ostringstream said;
  said << own << ' ' << own * 0.5 << ' ' << four;
  CHECK(said.str() == "3 1.5 4");
}

TEST_CASE("a degree computes with whole numbers, and becomes one") {
  static_assert(std::same_as<decltype(8 / four), int>);
  static_assert(std::same_as<decltype(std::int64_t(8) * four), std::int64_t>);
  static_assert(8 / four == 2 && 8 % four == 0 && four - 1 == 3 && four * four == 16);
  const int ranks = four;
  CHECK(ranks == 4);
}

TEST_CASE("numbers are counted on: a plain one by degrees, a rank's own by all") {
  int ranks = 1;
  ranks += four;
  ranks *= four;
  ranks -= 2;
  ranks /= four;
  CHECK(ranks == 4);
  varying<std::int64_t> at = own;
  at += 2;
  at *= own;
  at -= four;
  at %= 4;
  CHECK(at == 3);
}

}  // namespace
