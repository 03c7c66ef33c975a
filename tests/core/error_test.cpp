#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <weft/core/error.hpp>

namespace {

TEST_CASE("require says nothing while the condition holds") { CHECK_NOTHROW(weft::require(true, "never")); }

TEST_CASE("require joins its parts, numbers in decimal") {
  const std::string axis = "tp";
  try {
    weft::require(false, "heads = ", 6, " cannot be split over ", axis, " = ", 4LL, ", so use ", std::size_t{3});
    FAIL("require returned");
  } catch (const weft::failure& e) {
    CHECK(std::string(e.what()) == "heads = 6 cannot be split over tp = 4, so use 3");
  }
}

TEST_CASE("numbers keep their sign and their full width") {
  const auto message = [](auto value) -> std::string {
    try {
      weft::fail(value);
    } catch (const weft::failure& e) {
      return e.what();
    }
  };
  CHECK(message(-1) == "-1");
  CHECK(message(0u) == "0");
  CHECK(message(18446744073709551615ull) == "18446744073709551615");
  CHECK(message(std::int64_t(-9223372036854775807) - 1) == "-9223372036854775808");
}

TEST_CASE("small, large and odd real numbers are printed as they are") {
  CHECK(weft::detail::text(-1e-9) == "-1e-09");
  CHECK(weft::detail::text(0.1, " ", -2.0, " ", 1e30, " ", 0.95f) == "0.1 -2 1e+30 0.95");
  CHECK(weft::detail::text(std::numeric_limits<double>::infinity()) == "inf");
}

TEST_CASE("a character is itself, not its number") { CHECK(weft::detail::text("a", ' ', 'b') == "a b"); }

TEST_CASE("fail throws without a condition, also with one part or none") {
  CHECK_THROWS_WITH_AS(weft::fail("the corpus is empty"), "the corpus is empty", weft::failure);
  CHECK_THROWS_AS(weft::fail(), weft::failure);
}

TEST_CASE("an error is a std::runtime_error") { CHECK_THROWS_AS(weft::fail("x"), std::runtime_error); }

}  // namespace
