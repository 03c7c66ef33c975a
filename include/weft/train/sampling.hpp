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

#include <weft/backend/token_choice.hpp>
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
          ": the model's numbers have overflowed; look at its weights and its loss");
}

/// The logits of one text with what the settings make of them.
class weighed_tokens {
 public:
  /// Throws where the logits say nothing. Cost: sorts no more than the likeliest, as many as the settings ask for.
  template <class T>
  weighed_tokens(std::span<const T> logits, std::span<const std::int32_t> history, const sampling& s)
      : rule_(rule_of(s)), keys_(logits.size()) {
    const auto vocab = static_cast<std::int64_t>(logits.size());
    require_choice(vocab);
    for (std::size_t i = 0; i < keys_.size(); ++i)
      keys_[i] = order_.key(0, static_cast<float>(logits[i]), static_cast<std::int64_t>(i));
    for (const std::int32_t token : penalised_tokens(history, s, vocab)) {
      std::uint64_t& key = keys_[static_cast<std::size_t>(token)];
      key = order_.key(0, penalised(order_.logit(key), rule_.penalty), token);
    }
    first_ = *std::min_element(keys_.begin(), keys_.end());
    top_ = order_.logit(first_);
    require_finite_top(top_);
    if (rule_.sorts()) last_ = last_kept();
  }

  /// The first of the likeliest where the temperature is 0, else the token that a uniform number in [0, 1) draws.
  std::int32_t choose(double uniform) const {
    if (rule_.scale == 0) return order_.index(first_);
    std::int64_t total = 0;
    for (const std::uint64_t key : keys_) total += kept_weight(key);
    const std::int64_t drawn = drawn_sum(total, uniform);
    std::size_t i = 0;
    for (std::int64_t sum = kept_weight(keys_[0]); sum <= drawn; sum += kept_weight(keys_[i])) ++i;
    return static_cast<std::int32_t>(i);
  }
  /// How likely each is to be drawn.
  std::vector<double> chances() const {
    std::vector<double> out(keys_.size());
    double total = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (rule_.scale == 0)
        out[i] = keys_[i] == first_;
      else
        out[i] = static_cast<double>(kept_weight(keys_[i]));
      total += out[i];
    }
    for (double& x : out) x /= total;
    return out;
  }

 private:
  double level(std::uint64_t key) const { return level_of(order_.logit(key), top_, rule_.scale); }
  std::int64_t kept_weight(std::uint64_t key) const {
    if (key > last_) return 0;
    const double x = level(key);
    return x < rule_.least ? 0 : weight_of(x);
  }
  // The key of the last token that top_k and top_p keep.
  std::uint64_t last_kept() const {
    std::vector<std::uint64_t> order = keys_;
    const auto part = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {  // the first `end` of all before the others
      if (end < std::ssize(order)) std::nth_element(order.begin() + begin, order.begin() + end, order.end());
    };
    const std::int64_t most = rule_.most(std::ssize(order));
    part(0, most);
    order.resize(static_cast<std::size_t>(most));
    if (rule_.top_p >= 1) return *std::max_element(order.begin(), order.end());
    std::int64_t total = 0, sum = 0;
    for (const std::uint64_t key : order) total += weight_of(level(key));
    const std::int64_t kept = kept_sum(total, rule_.top_p);
    for (std::ptrdiff_t begin = 0, each = 64; begin < most; begin += each, each *= 2) {
      const std::ptrdiff_t end = std::min<std::ptrdiff_t>(begin + each, most);
      part(begin, end);
      std::sort(order.begin() + begin, order.begin() + end);
      for (std::ptrdiff_t i = begin; i < end; ++i)
        if ((sum += weight_of(level(order[static_cast<std::size_t>(i)]))) > kept)
          return order[static_cast<std::size_t>(i)];
    }
    return order.back();  // never: the sum of all is above `kept`
  }

  choice_rule rule_;
  token_keys order_;
  std::vector<std::uint64_t> keys_;  // by index
  std::uint64_t first_ = 0, last_ = ~std::uint64_t{0};
  float top_ = 0;
};

}  // namespace detail

/// The probability with which each token is chosen by these settings, 0 for what they drop: penalty, temperature, top-k
/// (Fan et al. 2018), top-p, min-p, in this order. logits, as fp32: one position's; `history`: the tokens before. Among
/// equals the lower index comes first. Throws weft::failure where the logits say nothing: one is NaN or infinity, or
/// all are -infinity; or where there are none, or more than 2^22.
WEFT_LINKED std::vector<double> token_chances(const std::vector<double>& logits,
                                              const std::vector<std::int32_t>& history, const sampling& s) {
  return detail::weighed_tokens(std::span(logits), history, s).chances();
}

/// The token that `uniform` in [0, 1) draws by these probabilities, the tokens in the order of their indices; the
/// likeliest, at a temperature of 0. Throws as token_chances does. Probabilities are multiples of 2^-40 of the
/// likeliest's, so one that is less likely than that is never drawn.
WEFT_LINKED std::int32_t choose_token(const std::vector<double>& logits, const std::vector<std::int32_t>& history,
                                      const sampling& s, double uniform) {
  return detail::weighed_tokens(std::span(logits), history, s).choose(uniform);
}

}  // namespace weft
