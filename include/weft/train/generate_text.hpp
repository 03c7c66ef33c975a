// Text from text, by a model and its tokenizer. Invariant: what is told as it is written, piece by piece, is what is
// returned.
#pragma once

#include <weft/train/generate_batch.hpp>

namespace weft {

namespace detail {

/// Tells a growing text's new part, as far as it is whole and can't be the beginning of a stop string.
class text_teller {
 public:
  text_teller(const sampling& s, const std::function<void(std::string_view)>& tell) : settings_(s), tell_(tell) {}

  /// The text as it is now. last: nothing more comes.
  void have(const std::string& text, bool last) {
    const std::string_view whole = std::string_view(text).substr(0, stop_in(text, settings_.stop_strings));
    std::size_t end = whole.size();
    if (!last && end == text.size()) end = before_half_stop(whole.substr(0, before_half_character(whole)));
    if (end <= told_) return;
    tell_(whole.substr(told_, end - told_));
    told_ = end;
  }

 private:
  // A decoder writes U+FFFD where a character's bytes aren't all there.
  static std::size_t before_half_character(std::string_view text) {
    constexpr std::string_view half = "\xEF\xBF\xBD";
    std::size_t end = text.size();
    while (text.substr(0, end).ends_with(half)) end -= half.size();
    return end;
  }
  std::size_t before_half_stop(std::string_view text) const {
    std::size_t end = text.size();
    for (const std::string& stop : settings_.stop_strings)
      for (std::size_t n = std::min(stop.size() - 1, text.size()); n > 0; --n)
        if (text.ends_with(std::string_view(stop).substr(0, n))) {
          end = std::min(end, text.size() - n);
          break;
        }
    return end;
  }

  const sampling& settings_;
  const std::function<void(std::string_view)>& tell_;
  std::size_t told_ = 0;
};

}  // namespace detail

/// Continues a prompt by s.tokens tokens, fewer where one of s.stop_strings, s.ends, s.end_token or s.stop ends it;
/// neither the prompt nor what ends it is returned. words: a tokenizer, which has encode(text) and decode(tokens).
/// told(piece): called on the first rank as the text grows, with each new piece of it. All ranks call it with the same
/// prompt, settings and tokenizer, and have the text. Cost: as generate_tokens, and the text so far is decoded for each
/// token.
template <class Model, class Tokenizer>
std::string generate_text(Model& model, const Tokenizer& words, const std::string& prompt, const sampling& s = {},
                          const std::function<void(std::string_view)>& told = nullptr) {
  check(s);
  const auto text_of = [&](std::span<const std::int32_t> tokens) {
    return words.decode(std::vector<std::int32_t>(tokens.begin(), tokens.end()));
  };
  std::vector<std::int32_t> given = words.encode(prompt);
  require(!given.empty(),
          "a prompt has no tokens, and a text begins with at least one: give it a character, or the token "
          "with which the model's texts begin");
  std::vector<std::int32_t> written;
  detail::text_teller teller(s, told);
  batching one{.at_once = 1};
  if (told)
    one.on_token = [&](std::size_t, std::int32_t token) {
      written.push_back(token);
      teller.have(text_of(written), false);
    };
  const std::string text = text_of(detail::generate_lists(model, {given}, detail::with_stops(s, text_of), one).front());
  if (told && model.ctx().is_first()) teller.have(text, true);
  return detail::before_stop(text, s);
}

}  // namespace weft
