// Choosing the next token from logits. Pure functions on one rank's copy of the logits of one position.
// Invariant: which token comes out is a function of (logits as fp32, settings, one uniform number), the same that a
// device computes (backend/token_choice.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <weft/backend/cpu/choose_tokens.hpp>
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
  /// End a text before the first of them that it comes to, in functions that give text; they ask for one that has none
  /// of it yet, so what is told token by token may have its beginning.
  std::vector<std::string> stop_strings = {};
  /// Asked of the tokens that a text has so far, on any rank, so it depends on nothing else: whether it ends here.
  std::function<bool(std::span<const std::int32_t>)> ends = nullptr;
  /// Once it is true on the first rank, by a signal's handler say, the text ends. Null: never.
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

namespace detail {

inline choice_rule rule_of(const sampling& s) {
  constexpr double log2_e = 1.4426950408889634;
  choice_rule rule{.top_k = s.top_k, .top_p = s.top_p, .penalty = s.repetition_penalty};
  if (s.temperature > 0) rule.scale = std::min(log2_e / s.temperature, std::numeric_limits<double>::max());
  if (s.min_p > 0) rule.least = std::log2(s.min_p);
  return rule;
}

/// The tokens of a text that are penalised, each once.
inline std::vector<std::int32_t> penalised_tokens(std::span<const std::int32_t> history, const sampling& s,
                                                  std::int64_t vocab) {
  std::vector<std::int32_t> out;
  if (s.repetition_penalty == 1) return out;
  const auto n = std::min(s.penalty_window, static_cast<std::int64_t>(history.size()));
  for (const std::int32_t token : history.last(static_cast<std::size_t>(n)))
    if (token >= 0 && token < vocab) out.push_back(token);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

inline void require_choice(std::int64_t vocab) {
  require(vocab > 0, "there are no logits to choose a token from");
  require(vocab <= most_tokens_to_choose_from, "a token is chosen from at most ", most_tokens_to_choose_from,
          " logits, and these are ", vocab);
}
inline void require_finite_top(float top) {
  require(is_finite(static_cast<double>(top)), "a token is chosen by logits whose largest is ", top,
          ": what the model computed is not finite; look at its weights, and at the loss that it was trained to");
}

/// The logits of one text with what the settings make of them. Throws where they say nothing.
inline weighed_tokens weigh(const std::vector<double>& logits, std::span<const std::int32_t> history,
                            const sampling& s) {
  check(s);
  require_choice(std::ssize(logits));
  weighed_tokens out(std::span<const double>(logits), rule_of(s), penalised_tokens(history, s, std::ssize(logits)));
  require_finite_top(out.top());
  return out;
}

}  // namespace detail

/// The probability with which each token is chosen by these settings, 0 for what they drop: penalty, temperature, top-k
/// (Fan et al. 2018), top-p, min-p, in this order. logits, as fp32: one position's; `history`: the tokens before. Among
/// equals the lower index comes first. Throws weft::failure where the logits say nothing: one is NaN or infinity, or
/// all are -infinity; where there are none, or more than 2^22; or where a setting has no meaning.
WEFT_LINKED std::vector<double> token_chances(const std::vector<double>& logits,
                                              const std::vector<std::int32_t>& history, const sampling& s) {
  return detail::weigh(logits, history, s).chances();
}

/// The token that `uniform` in [0, 1) draws by these probabilities, the tokens in the order of their indices; the
/// likeliest, at a temperature of 0. Throws as token_chances does, and where uniform is below 0 or above 1.
/// Probabilities are multiples of 2^-40 of the likeliest's, so one that is less likely than that is never drawn.
WEFT_LINKED std::int32_t choose_token(const std::vector<double>& logits, const std::vector<std::int32_t>& history,
                                      const sampling& s, double uniform) {
  require(uniform >= 0 && uniform <= 1, "a token is drawn by a number in [0, 1), not ", uniform);
  return detail::weigh(logits, history, s).choose(uniform);
}

}  // namespace weft
