// The next tokens of several texts from a tensor of logits, wherever it lies. Invariant: a backend that chooses where
// its memory is gives what the host chooses from the same logits, so who chooses is no part of the result.
#pragma once

#include <span>
#include <vector>

#include <weft/op/to_host.hpp>
#include <weft/train/sampling.hpp>

namespace weft::detail {

/// A text and the uniform number that draws its next token; null: none, whose token is -1.
struct text_to_choose {
  const std::vector<std::int32_t>* text = nullptr;
  double uniform = 0;
};

/// A backend with a kernel of its own for the choice. Others bring the logits to the host.
template <class B, class T>
concept chooses_tokens = requires(typename B::queue& queue, const T* logits, const choice_rule& rule,
                                  const choice_of_text* texts, const std::int32_t* penalised, std::int64_t n,
                                  chosen_token* out) {
  B::choose_tokens(queue, n, n, logits, rule, texts, penalised, n, out);
};

/// The token of each text; text i has the i-th row of this rank's share of logits, [texts, vocab]. Throws weft::failure
/// where a text's logits say nothing.
template <any_tensor X>
std::vector<std::int32_t> choose_tokens(const X& logits, std::span<const text_to_choose> texts, const sampling& s) {
  using B = typename X::backend;
  using T = typename X::element_type;
  const auto rows = static_cast<std::int64_t>(texts.size());
  const std::int64_t vocab = untyped(logits).held().elements() / std::max<std::int64_t>(rows, 1);
  std::vector<std::int32_t> out(texts.size(), -1);
  if constexpr (chooses_tokens<B, T>) {
    require_choice(vocab);
    std::vector<choice_of_text> given;
    std::vector<std::int32_t> penalised;
    for (const auto& [text, uniform] : texts) {
      const auto first = static_cast<std::int32_t>(penalised.size());
      if (text)
        for (const std::int32_t token : penalised_tokens(*text, s, vocab)) penalised.push_back(token);
      given.push_back({uniform, first, static_cast<std::int32_t>(penalised.size()) - first});
    }
    std::vector<chosen_token> chosen(texts.size());
    B::choose_tokens(untyped(logits).ctx->template queue<B>(), rows, vocab, untyped(logits).held().template as<T>(),
                     rule_of(s), given.data(), penalised.data(), static_cast<std::int64_t>(penalised.size()),
                     chosen.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!texts[i].text) continue;
      require_finite_top(chosen[i].top);
      out[i] = chosen[i].token;
    }
  } else {
    const auto numbers = local_share_on_host(logits);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (texts[i].text)
        out[i] = weighed_tokens(
                     std::span(numbers).subspan(i * static_cast<std::size_t>(vocab), static_cast<std::size_t>(vocab)),
                     *texts[i].text, s)
                     .choose(texts[i].uniform);
  }
  return out;
}

}  // namespace weft::detail
