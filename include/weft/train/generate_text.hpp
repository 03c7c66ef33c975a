// Text from text, by a model and its tokenizer. Invariant: what is told as it is written, piece by piece, is what is
// returned.
#pragma once

#include <weft/train/generate_batch.hpp>

namespace weft {

namespace detail {

/// What tokens say behind a prompt. Decoders may leave out the space before a text's first word, so the prompt's last
/// tokens are decoded with them.
template <class Tokenizer>
class continued_text {
 public:
  continued_text(const Tokenizer& words, std::span<const std::int32_t> prompt) : words_(words) {
    constexpr std::size_t most = 8;
    prompt = prompt.last(std::min(prompt.size(), most));
    before_.assign(prompt.begin(), prompt.end());
    begin_ = words_.decode(before_);
  }

  std::string operator()(std::span<const std::int32_t> written) const {
    std::vector<std::int32_t> all = before_;
    for (const std::int32_t token : written)
      if (is_word(token)) all.push_back(token);
    const std::string text = words_.decode(all);
    if (text.starts_with(begin_)) return text.substr(begin_.size());
    return words_.decode({all.begin() + std::ssize(before_), all.end()});  // the prompt ends within a character
  }

 private:
  // A model may have more tokens than its tokenizer.
  bool is_word(std::int32_t token) const {
    if constexpr (requires { words_.size(); }) return token < static_cast<std::int64_t>(words_.size());
    return true;
  }

  const Tokenizer& words_;
  std::vector<std::int32_t> before_;
  std::string begin_;
};

/// A text as it grows, as far as it is whole and can't be the beginning of a stop string. What it has said stays: a
/// decoder that takes it back, since bytes behind it make no character, is waited for.
class growing_text {
 public:
  explicit growing_text(const std::vector<std::string>& stops) : stops_(stops) {}

  /// The text is this now. Returns what is new of it. last: nothing more comes.
  std::string_view grow(const std::string& text, bool last) {
    const std::string_view whole = std::string_view(text).substr(0, stop_in(text, stops_));
    std::size_t end = whole.size();
    if (!last && end == text.size()) end = before_half_stop(whole.substr(0, before_half_character(whole)));
    const std::size_t begin = said_.size();
    if (end > begin && whole.starts_with(said_)) said_ += whole.substr(begin, end - begin);
    return std::string_view(said_).substr(begin);
  }
  const std::string& said() const { return said_; }

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
    for (const std::string& stop : stops_)
      for (std::size_t n = std::min(stop.size() - 1, text.size()); n > 0; --n)
        if (text.ends_with(std::string_view(stop).substr(0, n))) {
          end = std::min(end, text.size() - n);
          break;
        }
    return end;
  }

  const std::vector<std::string>& stops_;
  std::string said_;
};

}  // namespace detail

/// Continues a prompt by s.tokens tokens, fewer where one of s.stop_strings, s.ends, s.end_token or s.stop ends it;
/// neither the prompt nor what ends it is returned. words: a tokenizer, which has encode(text) and decode(tokens); a
/// token beyond its size(), where it has one, says nothing. told(piece): called on the first rank as the text grows,
/// with each new piece of it; what it throws ends all ranks, as batching::on_token's does. kept: of a text that grows
/// by turns, what the last one read isn't read again where the prompt begins alike. All ranks call it with the same
/// prompt, settings and tokenizer, and have the text. Cost: as generate_tokens, and the text so far is decoded for each
/// token.
template <class Model, class Tokenizer>
std::string generate_text(Model& model, const Tokenizer& words, const std::string& prompt, const sampling& s = {},
                          const std::function<void(std::string_view)>& told = nullptr, kept_text* kept = nullptr) {
  check(s);
  const std::vector<std::int32_t> given = words.encode(prompt);
  require(!given.empty(),
          "a prompt has no tokens, and a text begins with at least one: give it a character, or the token "
          "with which the model's texts begin");
  const detail::continued_text<Tokenizer> text_of(words, given);
  std::vector<std::int32_t> so_far;
  detail::growing_text text(s.stop_strings);
  const auto tell = [&](std::string_view piece) {
    if (!piece.empty()) told(piece);
  };
  batching one{.at_once = 1};
  if (told)
    one.on_token = [&](std::size_t, std::int32_t token) {
      so_far.push_back(token);
      tell(text.grow(text_of(so_far), false));
    };
  const std::vector<std::int32_t> written =
      detail::generate_lists(model, {given}, detail::with_stops(s, text_of), one, kept).front();
  detail::on_all_or_none(model.ctx(), [&] {
    if (told && model.ctx().is_first()) tell(text.grow(text_of(written), true));
  });
  detail::growing_text reply(s.stop_strings);  // as it was told, on every rank
  for (std::size_t n = 1; n <= written.size(); ++n)
    reply.grow(text_of(std::span(written).first(n)), n == written.size());
  return reply.said();
}

}  // namespace weft
