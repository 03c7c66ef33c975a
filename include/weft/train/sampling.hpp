// Choosing the next token from logits. Pure functions on one rank's copy of the logits of one position.
// Invariant: which token comes out is a function of (logits, settings, one uniform number).
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <weft/core/error.hpp>
#include <weft/core/finite.hpp>

namespace weft {

/// Settings of a generated text; what each is off at stands beside it. top_p: Holtzman et al. 2020; min_p: Nguyen et
/// al. 2024.
struct sampling {
  std::int64_t tokens = 200;  // to generate
  double temperature = 0.8;   // 0: always the likeliest token
  int top_k = 0;              // keep the k likeliest; 0: all
  double top_p = 1;           // keep the likeliest whose probabilities reach p; 1: all
  double min_p = 0;           // keep those at least so likely as min_p times the likeliest is; 0: all
  double repetition_penalty =
      1;  // divides positive logits of tokens that occur already, multiplies negative ones; 1: off
  std::int64_t penalty_window = 64;  // how far back the penalty looks
  std::uint64_t seed = 1;
  std::int32_t end_token = -1;  // ends a text, and is no part of it; -1: none
  // End a text before the first of them that it comes to, in functions that give text; they ask for one that has none
  // of it yet, so what is told token by token may have its beginning.
  std::vector<std::string> stop_strings = {};
  // Asked of the tokens that a text has so far, on any rank, so it depends on nothing else: whether it ends here.
  std::function<bool(std::span<const std::int32_t>)> ends = nullptr;
  // Once it is true on the first rank, by a signal's handler say, the text ends. Null: never.
  const std::atomic<bool>* stop = nullptr;
};

/// Throws weft::failure when a setting has no meaning.
WEFT_LINKED void check(const sampling& s) {
  require(s.tokens >= 0, "a sample has 0 tokens or more, not ", s.tokens);
  require(detail::is_finite(s.temperature) && s.temperature >= 0, "temperature is ", s.temperature,
          "; it is a finite number, 0 (always the likeliest) or more");
  require(s.top_k >= 0, "top_k is ", s.top_k, "; it is 0 (off) or more");
  require(s.top_p > 0 && s.top_p <= 1, "top_p is ", s.top_p, "; it is above 0 and at most 1 (off)");
  require(s.min_p >= 0 && s.min_p <= 1, "min_p is ", s.min_p, "; it is 0 (off) to 1");
  require(s.penalty_window >= 0, "penalty_window is ", s.penalty_window, "; it is 0 tokens or more");
  for (const std::string& end : s.stop_strings)
    require(!end.empty(), "a stop string is empty, and every text would end at once; leave it out");
  require(detail::is_finite(s.repetition_penalty) && s.repetition_penalty > 0, "repetition_penalty is ",
          s.repetition_penalty, "; it is a finite number above 0, and 1 turns it off");
}

/// Source: Keskar et al. 2019 (CTRL), with negative logits multiplied, so that the penalty always lowers. A token
/// counts once.
WEFT_LINKED void penalise_repetition(std::vector<double>& logits, const std::int32_t* recent, std::int64_t count,
                                     double penalty) {
  std::vector<char> seen(logits.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto t = static_cast<std::size_t>(recent[i]);
    if (t >= logits.size() || seen[t]) continue;
    seen[t] = 1;
    logits[t] = logits[t] > 0 ? logits[t] / penalty : logits[t] * penalty;
  }
}

/// Indices of the logits, the highest first; among equals the lower index first.
WEFT_LINKED std::vector<std::int32_t> ranked(const std::vector<double>& logits) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  return order;
}

/// All but the k highest become -infinity (Fan et al. 2018). k = 0 keeps all.
WEFT_LINKED void keep_top_k(std::vector<double>& logits, int k) {
  if (k <= 0 || static_cast<std::size_t>(k) >= logits.size()) return;
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::nth_element(order.begin(), order.begin() + k, order.end(), [&](std::int32_t a, std::int32_t b) {
    const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  for (std::size_t i = static_cast<std::size_t>(k); i < order.size(); ++i)
    logits[static_cast<std::size_t>(order[i])] = -std::numeric_limits<double>::infinity();
}

/// exp(logit - highest), over their sum.
WEFT_LINKED std::vector<double> probabilities(const std::vector<double>& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p(logits.size());
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += p[i] = std::exp(logits[i] - top);
  for (double& x : p) x /= sum;
  return p;
}

/// Keeps the smallest set of likeliest tokens whose probabilities sum to at least p (Holtzman et al. 2020, nucleus
/// sampling); the others become -infinity. At least one stays.
WEFT_LINKED void keep_top_p(std::vector<double>& logits, double p) {
  if (p >= 1) return;
  const auto order = ranked(logits);
  const auto chance = probabilities(logits);
  double sum = 0;
  for (std::int32_t i : order) {
    if (sum >= p) logits[static_cast<std::size_t>(i)] = -std::numeric_limits<double>::infinity();
    sum += chance[static_cast<std::size_t>(i)];
  }
}

/// Those less likely than p times the likeliest become -infinity.
WEFT_LINKED void keep_min_p(std::vector<double>& logits, double p) {
  if (p <= 0) return;
  const double least = *std::max_element(logits.begin(), logits.end()) + std::log(p);
  for (double& x : logits)
    if (x < least) x = -std::numeric_limits<double>::infinity();
}

/// The token: penalty, temperature, top-k, top-p, min-p, then the draw by `uniform` in [0, 1). `history`: the tokens
/// before. Throws weft::failure where the logits say nothing: one is NaN or infinity, or all are -infinity.
WEFT_LINKED std::int32_t choose_token(std::vector<double> logits, const std::vector<std::int32_t>& history,
                                      const sampling& s, double uniform) {
  require(!logits.empty(), "there are no logits to choose a token from");
  double top = -std::numeric_limits<double>::infinity();
  for (const double x : logits)
    if (x > top || detail::is_nan(x)) top = x;  // nothing is above NaN
  require(detail::is_finite(top), "a token is chosen by logits whose largest is ", top,
          ": the model's numbers have overflowed; look at its weights and its loss");
  if (s.repetition_penalty != 1) {
    const auto n = std::min(s.penalty_window, static_cast<std::int64_t>(history.size()));
    penalise_repetition(logits, history.data() + (static_cast<std::int64_t>(history.size()) - n), n,
                        s.repetition_penalty);
  }
  const auto likeliest = std::max_element(logits.begin(), logits.end());  // the first of them
  if (s.temperature == 0) return static_cast<std::int32_t>(likeliest - logits.begin());
  top = *likeliest;  // after the penalty; subtracted, so that nothing overflows
  for (double& x : logits) x = (x - top) / s.temperature;
  keep_top_k(logits, s.top_k);
  keep_top_p(logits, s.top_p);
  keep_min_p(logits, s.min_p);
  const auto chance = probabilities(logits);
  std::int32_t last = 0;
  for (std::size_t i = 0; i < chance.size(); ++i) {
    if (chance[i] == 0) continue;
    last = static_cast<std::int32_t>(i);
    if (uniform < chance[i]) return last;
    uniform -= chance[i];
  }
  return last;  // rounding left a little over
}

}  // namespace weft
