// The choice of a token on the host: each setting, together, and what is refused.
#include <numeric>

#include <doctest/doctest.h>

#include <weft/core/random.hpp>
#include <weft/train/sampling.hpp>

#include "samplings.hpp"

using namespace weft;

namespace {
constexpr double none = -std::numeric_limits<double>::infinity();
using numbers = std::vector<double>;

std::string kept(const numbers& logits, const sampling& s) {
  std::string out;
  for (const double p : token_chances(logits, {}, s)) out += p > 0 ? '+' : '-';
  return out;
}
}  // namespace

TEST_CASE("top-k keeps the k highest, the lower index first among equals") {
  CHECK(kept({1, 4, 3, 4, 2}, {.temperature = 1, .top_k = 2}) == "-+-+-");
  CHECK(kept({2, 2, 2}, {.temperature = 1, .top_k = 1}) == "+--");
  CHECK(kept({0.0, -0.0}, {.temperature = 1, .top_k = 1}) == "+-");
  CHECK(kept({-0.0, 0.0}, {.temperature = 1, .top_k = 1}) == "+-");
  for (const int k : {0, 2, 5}) CHECK(kept({1, 2}, {.temperature = 1, .top_k = k}) == "++");
}

TEST_CASE("logits as probabilities") {
  const numbers logits{0, std::log(2.0), std::log(2.0), std::log(3.0)};
  const numbers p = token_chances(logits, {}, {.temperature = 1}),
                greedy = token_chances(logits, {}, {.temperature = 0});
  for (std::size_t i = 0; i < 4; ++i) CHECK(p[i] == doctest::Approx(std::exp(logits[i]) / 8).epsilon(1e-6));
  CHECK(greedy == numbers{0, 0, 0, 1});
}

TEST_CASE("top-p keeps the smallest set that reaches p") {
  const numbers logits{std::log(0.5), std::log(0.2), std::log(0.3)};  // probabilities 0.5, 0.2, 0.3
  const auto of = [&](double p) { return kept(logits, {.temperature = 1, .top_p = p}); };
  CHECK(of(0.01) == "+--");  // at least one
  CHECK(of(1e-300) == "+--");
  CHECK(of(0.49) == "+--");
  CHECK(of(0.51) == "+-+");
  CHECK(of(0.79) == "+-+");
  CHECK(of(0.81) == "+++");
  CHECK(of(1 - 1e-16) == "+++");
  CHECK(of(1) == "+++");
  CHECK(kept({1, 1, 1, 1}, {.temperature = 1, .top_p = 0.5}) == "++--");  // reached, not passed
  CHECK(kept(numbers(1000, 0), {.temperature = 1, .top_p = 0.5}) == std::string(500, '+') + std::string(500, '-'));
}

TEST_CASE("min-p keeps what is at least so likely beside the likeliest") {
  const numbers logits{std::log(0.5), std::log(0.1), std::log(0.26), std::log(0.14)};
  const auto of = [&](double p) { return kept(logits, {.temperature = 1, .min_p = p}); };
  CHECK(of(0) == "++++");
  CHECK(of(0.21) == "+-++");
  CHECK(of(0.5) == "+-+-");
  CHECK(of(1) == "+---");
}

TEST_CASE("the repetition penalty lowers what occurred, once each") {
  const numbers penalised =
      token_chances({2, -2, 3, 0}, {0, 1, 0, 3, 77, -1}, {.temperature = 1, .repetition_penalty = 2});
  const numbers want = token_chances({1, -4, 3, 0}, {}, {.temperature = 1});
  CHECK(penalised == want);
  // What it makes of a number stays one.
  CHECK(choose_token({-1, -2}, {0, 1}, {.temperature = 1, .repetition_penalty = 1e300}, 0.75) == 1);
  CHECK(choose_token({none, 1}, {0, 1}, {.temperature = 1, .repetition_penalty = 1e-300}, 0) == 1);
}

// By plain sums of doubles, in the order of falling logits.
TEST_CASE("probabilities are those of the filters one after another") {
  const philox draws{3, stream_of("logits")};
  std::uint64_t drawn = 0;
  for (const sampling& s : weft_test::samplings) {
    numbers logits(300);
    for (double& x : logits) x = std::floor(60 * static_cast<double>(draws.uniform(drawn++))) / 8;  // many equal
    logits[7] = logits[250] = none;
    std::vector<std::int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return logits[std::size_t(a)] > logits[std::size_t(b)]; });
    if (s.temperature == 0) order.resize(1);
    if (s.top_k > 0 && s.top_k < std::ssize(order)) order.resize(std::size_t(s.top_k));
    const auto weight = [&](std::int32_t i) {
      return std::exp((logits[std::size_t(i)] - logits[std::size_t(order[0])]) / std::max(s.temperature, 1e-300));
    };
    double sum = 0, before = 0, all = 0;
    for (const auto i : order) sum += weight(i);
    numbers want(logits.size());
    for (const auto i : order) {
      if (before < s.top_p * sum * (1 - 1e-11) && weight(i) >= s.min_p) all += want[std::size_t(i)] = weight(i);
      before += weight(i);
    }
    const numbers got = token_chances(logits, {}, s);
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i] / all) < 1e-11);
  }
}

TEST_CASE("weights are powers of 2, and keys are in the order of falling logits") {
  const philox draws{4, stream_of("levels")};
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const double level = static_cast<double>(draws.uniform(i)) * (i % 3 == 0 ? -1 : -41);
    const double want = level < -40 ? 0 : std::exp2(level + 40);
    CHECK(std::abs(static_cast<double>(detail::weight_of(level)) + 0.5 - want) <= 0.51 + want * 0x1p-43);
  }
  for (int halvings = 0; halvings <= 40; ++halvings)
    CHECK(detail::weight_of(-halvings) == std::int64_t{1} << (40 - halvings));
  CHECK(detail::weight_of(std::nan("")) == 0);
  constexpr float top = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  const float falling[] = {std::nanf(""), top, most, 1, 0.5f, 1e-45f, 0, -1e-45f, -1, -most, -top};
  const detail::token_keys keys{20};
  for (std::size_t i = 0; i + 1 < std::size(falling); ++i) {
    CHECK(keys.key(3, falling[i], 1000000) < keys.key(3, falling[i + 1], 0));
    CHECK(keys.key(3, falling[i], 7) < keys.key(3, falling[i], 8));
    CHECK(keys.key(3, falling[i], 7) < keys.key(4, falling[0], 0));
    const float back = keys.logit(keys.key(3, falling[i], 7));
    CHECK((back == falling[i] || (i == 0 && back != back)));
    CHECK(keys.index(keys.key(3, falling[i], 1000000)) == 1000000);
  }
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

TEST_CASE("a choice by settings without a meaning is refused, and so is a draw by a number outside of [0, 1)") {
  const numbers logits{1, 2};
  for (const sampling& s :
       {sampling{.temperature = -1}, sampling{.top_k = -5}, sampling{.top_p = std::nan("")}, sampling{.min_p = 2},
        sampling{.repetition_penalty = std::nan("")}, sampling{.repetition_penalty = 2, .penalty_window = -3}}) {
    CHECK_THROWS_AS(choose_token(logits, {0, 1}, s, 0.5), failure);
    CHECK_THROWS_AS(token_chances(logits, {0, 1}, s), failure);
  }
  for (const double uniform : {-0.5, 1.5, 1e300, std::nan("")})
    CHECK_THROWS_WITH_AS(choose_token(logits, {}, {}, uniform), doctest::Contains("drawn by a number in [0, 1), not"),
                         failure);
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
  CHECK_THROWS_WITH_AS(choose({}, 1), "there are no logits to choose a token from", failure);
  CHECK_THROWS_WITH_AS(check(sampling{.temperature = std::nan("")}), doctest::Contains("temperature is nan"), failure);
}
