// Texts of many prompts at once. Invariant: all ranks have all of them, whatever the sharding.
#pragma once

#include <weft/tensor/consistency.hpp>
#include <weft/train/batch_writer.hpp>

namespace weft {

namespace detail {
inline std::uint64_t hash_of_stops(const sampling& s) {
  std::uint64_t hash = 0;
  for (const std::string& end : s.stop_strings) hash = hash_bytes(end.data(), end.size(), hash + 1);
  return hash;
}
inline std::uint64_t hash_of_kept(const kept_text* kept) {
  return kept ? hash_bytes(kept->tokens().data(), kept->tokens().size_bytes(), 1) : 0;
}

/// As generate_tokens; `s.stop_strings` is for whoever has texts. kept: null, or what is kept of the one prompt's.
template <class Model>
std::vector<std::vector<std::int32_t>> generate_lists(Model& model,
                                                      const std::vector<std::vector<std::int32_t>>& prompts,
                                                      const sampling& s, const batching& b, kept_text* kept = nullptr) {
  check(s);
  require(b.at_once >= 1 && b.prefill >= 1, "batching writes ", b.at_once, " texts at once, of prompts read ",
          b.prefill, " tokens at a time; both are at least 1");
  std::uint64_t hash = 0;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    require(!prompts[p].empty(), "prompt ", p, " of ", prompts.size(),
            " is empty: a text begins with at least one token");
    for (const std::int32_t token : prompts[p])
      require(token >= 0 && token < model.config().vocab, "prompt ", p, " has the token ", token, ", and the model's ",
              model.config().vocab, " count from 0");
    hash = hash_bytes(prompts[p].data(), prompts[p].size() * sizeof(std::int32_t), hash + 1);
  }
  context& ctx = model.ctx();
  if (ctx.check && ctx.size() > 1) [[unlikely]]
    ctx.check->compare(ctx.world, "the world", {"generate", "prompts"},
                       {{"a hash of them", static_cast<double>(hash >> 11)},
                        {"tokens", static_cast<double>(s.tokens)},
                        {"end_token", static_cast<double>(s.end_token)},
                        {"temperature", s.temperature},
                        {"top_k", static_cast<double>(s.top_k)},
                        {"top_p", s.top_p},
                        {"min_p", s.min_p},
                        {"repetition_penalty", s.repetition_penalty},
                        {"penalty_window", static_cast<double>(s.penalty_window)},
                        {"at_once", static_cast<double>(b.at_once)},
                        {"prefill", static_cast<double>(b.prefill)},
                        {"a hash of what is kept of a text", static_cast<double>(hash_of_kept(kept) >> 11)},
                        {"a hash of stop_strings", static_cast<double>(hash_of_stops(s) >> 11)},
                        {"the seed", static_cast<double>(s.seed)}});
  if (prompts.empty() || s.tokens == 0) return std::vector<std::vector<std::int32_t>>(prompts.size());
  if constexpr (reads_by_token<Model>)
    if (model.keeps(model.config().max_seq)) return batch_writer<Model>(model, prompts, s, b, kept).run();
  std::vector<std::vector<std::int32_t>> out;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    auto text = prompts[p];
    continue_text(model, text, s, p, [&](std::int32_t token) {
      if (b.on_token) b.on_token(p, token);
    });
    out.emplace_back(text.begin() + std::ssize(prompts[p]), text.end());
  }
  return out;
}
}  // namespace detail

/// Continues each prompt, a list of tokens, by s.tokens tokens, fewer where s.ends, s.end_token or s.stop ends it;
/// neither the prompts nor the end token is returned. All ranks call it with the same prompts and settings, and have
/// all texts. Texts that the model's max_seq is too short for go on with their last max_seq tokens. Cost: each token is
/// read once, in passes of b.at_once sequences a data-parallel rank; a model whose texts of max_seq tokens no cache can
/// serve (decoder::keeps) writes one text after the other.
template <class Model>
std::vector<std::vector<std::int32_t>> generate_tokens(Model& model,
                                                       const std::vector<std::vector<std::int32_t>>& prompts,
                                                       const sampling& s = {}, const batching& b = {}) {
  require(s.stop_strings.empty(),
          "generate_tokens() has tokens, and stop_strings are of text: set ends, or call "
          "generate_text() with a tokenizer");
  return detail::generate_lists(model, prompts, s, b);
}

/// The same of bytes, by a model whose vocabulary they are.
template <class Model, std::same_as<std::vector<std::string>> Prompts>
Prompts generate(Model& model, const Prompts& prompts, const sampling& s = {}, const batching& b = {}) {
  detail::require_bytes(model.config().vocab);
  std::vector<std::vector<std::int32_t>> given;
  for (const std::string& p : prompts) given.push_back(detail::tokens_of_bytes(p));
  std::vector<std::string> out;
  for (const auto& tokens : detail::generate_lists(model, given, detail::with_stops(s, detail::bytes_of_tokens), b))
    out.push_back(detail::before_stop(detail::bytes_of_tokens(tokens), s));
  return out;
}
/// Of prompts in braces, which two literals would else be the ends of one.
template <class Model, std::size_t N>
std::vector<std::string> generate(Model& model, const char* const (&prompts)[N], const sampling& s = {},
                                  const batching& b = {}) {
  return generate(model, std::vector<std::string>(prompts, prompts + N), s, b);
}

}  // namespace weft
