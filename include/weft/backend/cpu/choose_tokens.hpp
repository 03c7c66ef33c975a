// The choice of a token from each row of logits, on the host. Invariant: what kernels of a device choose from the same
// logits, since both compute with integers (backend/token_choice.hpp).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <weft/backend/cpu/team.hpp>
#include <weft/backend/token_choice.hpp>

namespace weft {
namespace detail {

/// The logits of one text with what a rule makes of them. penalised: tokens, each once.
class weighed_tokens {
 public:
  /// Cost: sorts no more than the likeliest, as many as the rule asks for.
  template <class T>
  weighed_tokens(std::span<const T> logits, const choice_rule& rule, std::span<const std::int32_t> penalised_tokens)
      : rule_(rule), keys_(logits.size()) {
    for (std::size_t i = 0; i < keys_.size(); ++i)
      keys_[i] = order_.key(0, static_cast<float>(logits[i]), static_cast<std::int64_t>(i));
    for (const std::int32_t token : penalised_tokens) {
      std::uint64_t& key = keys_[static_cast<std::size_t>(token)];
      key = order_.key(0, penalised(order_.logit(key), rule_.penalty), token);
    }
    first_ = *std::min_element(keys_.begin(), keys_.end());
    top_ = order_.logit(first_);
    if (rule_.sorts() && says_something()) last_ = last_kept();
  }

  /// The largest logit, and whether it is finite: where not, there is no choice.
  float top() const { return top_; }
  bool says_something() const { return is_finite(static_cast<double>(top_)); }

  /// The first of the likeliest where the temperature is 0, else the token that a uniform number in [0, 1) draws.
  std::int32_t choose(double uniform) const {
    if (rule_.scale == 0) return order_.index(first_);
    constexpr std::size_t run = 512;  // so that few weights are computed twice
    std::vector<std::int64_t> sums((keys_.size() + run - 1) / run);
    std::int64_t total = 0;
    for (std::size_t i = 0; i < keys_.size(); ++i) sums[i / run] += kept_weight(keys_[i]);
    for (const std::int64_t sum : sums) total += sum;
    std::int64_t left = drawn_sum(total, uniform);
    std::size_t i = 0;
    for (; sums[i / run] <= left; i += run) left -= sums[i / run];
    for (std::int64_t next = kept_weight(keys_[i]); next <= left; next = kept_weight(keys_[++i])) left -= next;
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

/// out[row] = the token of row `row` of logits [rows, vocab].
template <class T>
void choose_on_host(std::int64_t rows, std::int64_t vocab, const T* logits, const choice_rule& rule,
                    const choice_of_text* texts, const std::int32_t* penalised, chosen_token* out) {
  const auto n = static_cast<std::size_t>(vocab);
  for (std::int64_t row = 0; row < rows; ++row) {
    const choice_of_text& text = texts[row];
    const weighed_tokens tokens(std::span<const T>(logits + row * vocab, n), rule,
                                std::span(penalised + text.first, static_cast<std::size_t>(text.count)));
    out[row] = {tokens.says_something() ? tokens.choose(text.uniform) : -1, tokens.top()};
  }
}

}  // namespace detail

namespace cpu {

/// The same, by one core. penalised: `listed` tokens, of which each row has some.
template <class T>
void choose_tokens(team&, std::int64_t rows, std::int64_t vocab, const T* logits, const weft::detail::choice_rule& rule,
                   const weft::detail::choice_of_text* texts, const std::int32_t* penalised, std::int64_t /*listed*/,
                   weft::detail::chosen_token* out) {
  weft::detail::choose_on_host(rows, vocab, logits, rule, texts, penalised, out);
}

}  // namespace cpu
}  // namespace weft
