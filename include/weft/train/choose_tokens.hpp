// The next tokens of several texts from a tensor of logits, by the backend's kernel where it has one. Invariant: it
// gives what the host chooses from the same logits, so who chooses is no part of the result.
#pragma once

#include <span>
#include <vector>

#include <weft/backend/kernels.hpp>
#include <weft/op/to_host.hpp>
#include <weft/train/sampling.hpp>

namespace weft::detail {

/// A text and the uniform number that draws its next token; null: none, whose token is -1.
struct text_to_choose {
  const std::vector<std::int32_t>* text = nullptr;
  double uniform = 0;
};

/// The token of each text; text i has the i-th row of this rank's share of logits, [texts, vocab]. Throws weft::failure
/// where a text's logits say nothing.
template <any_tensor X>
std::vector<std::int32_t> choose_tokens(const X& logits, std::span<const text_to_choose> texts, const sampling& s) {
  using Backend = typename X::backend;
  using T = typename X::element_type;
  const auto rows = static_cast<std::int64_t>(texts.size());
  const std::int64_t vocab = untyped(logits).held().elements() / std::max<std::int64_t>(rows, 1);
  std::vector<std::int32_t> out(texts.size(), -1);
  require_choice(vocab);
  const choice_rule rule = rule_of(s);
  std::vector<choice_of_text> given;
  std::vector<std::int32_t> penalised;
  for (const auto& [text, uniform] : texts) {
    const auto first = static_cast<std::int32_t>(penalised.size());
    if (text)
      for (const std::int32_t token : penalised_tokens(*text, s, vocab)) penalised.push_back(token);
    given.push_back({uniform, first, static_cast<std::int32_t>(penalised.size()) - first});
  }
  std::vector<chosen_token> chosen(texts.size());
  if constexpr (choice_kernel<Backend, T>) {
    context& ctx = *untyped(logits).ctx;
    Backend::choose_tokens(ctx.queue<Backend>(), rows, vocab, untyped(logits).held().template as<const T>(), rule,
                           given.data(), penalised.data(), std::ssize(penalised), chosen.data());
    ctx.order().synchronize();
  } else {
    const std::vector<T> numbers = local_share_on_host(logits);
    choose_on_host(rows, vocab, numbers.data(), rule, given.data(), penalised.data(), chosen.data());
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!texts[i].text) continue;
    require_finite_top(chosen[i].top);
    out[i] = chosen[i].token;
  }
  return out;
}

}  // namespace weft::detail
