#include <doctest/doctest.h>

#include <weft/train/sampling.hpp>

using namespace weft;

namespace {
constexpr double none = -std::numeric_limits<double>::infinity();
using numbers = std::vector<double>;
}  // namespace

TEST_CASE("top-k keeps the k highest, the lower index first among equals") {
  numbers x{1, 4, 3, 4, 2};
  keep_top_k(x, 2);
  CHECK(x == numbers{none, 4, none, 4, none});
  numbers tie{2, 2, 2};
  keep_top_k(tie, 1);
  CHECK(tie == numbers{2, none, none});
  numbers all{1, 2};
  keep_top_k(all, 0);
  keep_top_k(all, 5);
  CHECK(all == numbers{1, 2});
}

TEST_CASE("logits in order, and as probabilities") {
  const numbers logits{0, std::log(2.0), std::log(2.0), std::log(3.0)};
  const std::vector<std::int32_t> order = ranked(logits);
  CHECK(order == std::vector<std::int32_t>{3, 1, 2, 0});
  const numbers p = probabilities(logits);
  for (std::size_t i = 0; i < 4; ++i) CHECK(p[i] == doctest::Approx(std::exp(logits[i]) / 8));
}

TEST_CASE("top-p keeps the smallest set that reaches p") {
  const numbers logits{std::log(0.5), std::log(0.2), std::log(0.3)};  // probabilities 0.5, 0.2, 0.3
  const auto kept = [&](double p) {
    numbers x = logits;
    keep_top_p(x, p);
    std::string out;
    for (double v : x) out += v == none ? '-' : '+';
    return out;
  };
  CHECK(kept(0.01) == "+--");  // at least one
  CHECK(kept(0.49) == "+--");
  CHECK(kept(0.51) == "+-+");
  CHECK(kept(0.79) == "+-+");
  CHECK(kept(0.81) == "+++");
  CHECK(kept(1) == "+++");
}

TEST_CASE("min-p keeps what is at least so likely beside the likeliest") {
  const numbers logits{std::log(0.5), std::log(0.1), std::log(0.26), std::log(0.14)};
  const auto kept = [&](double p) {
    numbers x = logits;
    keep_min_p(x, p);
    std::string out;
    for (double v : x) out += v == none ? '-' : '+';
    return out;
  };
  CHECK(kept(0) == "++++");
  CHECK(kept(0.21) == "+-++");
  CHECK(kept(0.5) == "+-+-");
  CHECK(kept(1) == "+---");
}

TEST_CASE("the repetition penalty lowers what occurred, once each") {
  numbers x{2, -2, 3, 0};
  const std::int32_t recent[] = {0, 1, 0, 3, 77};
  penalise_repetition(x, recent, 5, 2);
  CHECK(x == numbers{1, -4, 3, 0});
}

TEST_CASE("a token is drawn by its probability") {
  const numbers logits{0, std::log(3.0)};  // probabilities 1/4 and 3/4
  const sampling s{.temperature = 1};
  CHECK(choose_token(logits, {}, s, 0.0) == 0);
  CHECK(choose_token(logits, {}, s, 0.249) == 0);
  CHECK(choose_token(logits, {}, s, 0.251) == 1);
  CHECK(choose_token(logits, {}, s, 0.99999999) == 1);
  // At half the temperature the odds are squared: 1/10 and 9/10.
  CHECK(choose_token(logits, {}, {.temperature = 0.5}, 0.099) == 0);
  CHECK(choose_token(logits, {}, {.temperature = 0.5}, 0.101) == 1);
}

TEST_CASE("settings work together") {
  const numbers logits{1, 5, 4, 3};
  CHECK(choose_token(logits, {}, {.temperature = 0}, 0.999) == 1);
  CHECK(choose_token({1, 5, 5, none}, {}, {.temperature = 0}, 0.5) == 1);  // the first among equals
  CHECK(choose_token(logits, {}, {.temperature = 5, .min_p = 0.9}, 0.9999) == 1);
  CHECK(choose_token(logits, {1}, {.temperature = 0, .repetition_penalty = 2}, 0.5) == 2);
  CHECK(choose_token(logits, {1, 0, 0}, {.temperature = 0, .repetition_penalty = 2, .penalty_window = 2}, 0.5) ==
        1);  // too long ago
  CHECK(choose_token(logits, {}, {.temperature = 5, .top_k = 2}, 0.9999) == 2);
  CHECK(choose_token(logits, {}, {.temperature = 1e-3, .top_p = 0.5}, 0.9999) == 1);
  CHECK(choose_token({none, none, 1}, {}, {.temperature = 1}, 0) == 2);  // never a token without a chance
  CHECK(choose_token({1, none}, {}, {.temperature = 1}, 1.0) == 0);
}

TEST_CASE("settings without a meaning are refused") {
  CHECK_NOTHROW(check(sampling{}));
  CHECK_THROWS_AS(check({.tokens = -1}), failure);
  CHECK_THROWS_AS(check({.temperature = -0.1}), failure);
  CHECK_THROWS_AS(check({.top_k = -1}), failure);
  CHECK_THROWS_AS(check({.top_p = 0}), failure);
  CHECK_THROWS_AS(check({.top_p = 1.1}), failure);
  CHECK_THROWS_AS(check({.min_p = -0.1}), failure);
  CHECK_THROWS_AS(check({.min_p = 1.1}), failure);
  CHECK_THROWS_AS(check({.repetition_penalty = 0}), failure);
  CHECK_THROWS_AS(check({.temperature = std::nan("")}), failure);
}

TEST_CASE("logits that say nothing are refused, and the lowest temperature is the likeliest token") {
  const auto choose = [](numbers logits, double temperature) {
    return choose_token(logits, {}, {.temperature = temperature}, 0.5);
  };
  for (const double temperature : {0.0, 1.0}) {
    CHECK_THROWS_WITH_AS(choose({1, std::nan(""), 2}, temperature), doctest::Contains("whose largest is nan"), failure);
    CHECK_THROWS_WITH_AS(choose({none, none}, temperature), doctest::Contains("whose largest is -inf"), failure);
    CHECK_THROWS_WITH_AS(choose({1, -none}, temperature), doctest::Contains("whose largest is inf"), failure);
  }
  CHECK(choose({1, 3, none}, 1e-308) == 1);
  CHECK_THROWS_WITH_AS(check(sampling{.temperature = std::nan("")}), doctest::Contains("temperature is nan"), failure);
}
