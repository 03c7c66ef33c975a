// Tokens beside the vocabulary that are found in text before anything else: special ones, and words of a user's own.
// Invariant: of several that begin at one place the longest is taken.
#pragma once

#include <map>

#include <weft/io/tokenizer/normalizer.hpp>

namespace weft::detail {

struct added_token {
  std::int32_t id;
  std::string content;
  bool special, strips_left, strips_right, single_word, normalized;
};

/// A piece of text, or where id is not negative, a token that was found.
struct found_piece {
  std::string text;
  std::int32_t id = -1;
  std::size_t begin = 0;  // in the text that was searched
  std::size_t end = 0;    // of a token's own characters: it may take white space behind them along
};

class added_tokens {
 public:
  added_tokens(const nlohmann::json* said, const std::string& path)
      : word_at_end_(R"(\w\z)", path),
        word_at_begin_(R"(\A\w)", path),
        space_at_end_(R"(\s+\z)", path),
        space_at_begin_(R"(\A\s+)", path) {
    if (!said) return;
    if (!said->is_array()) throw file_error(text("the file ", path, " has added_tokens that are no list"));
    for (const nlohmann::json& one : *said) {
      json_fields f(one, path, "added_tokens");
      const bool special = f.flag("special", false);
      const std::int64_t id = f.whole_number("id");
      if (id < 0 || id > 0x7FFFFFFF) f.fail("id", id, "a number from 0 to 2^31 - 1");
      all_.push_back({static_cast<std::int32_t>(id), f.string("content", ""), special, f.flag("lstrip", false),
                      f.flag("rstrip", false), f.flag("single_word", false), f.flag("normalized", !special)});
      f.finish();
    }
  }

  const std::vector<added_token>& all() const { return all_; }
  /// Says what the contents of normalised tokens are in normalised text.
  void prepare(const text_step& normalize) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const added_token& t = all_[i];
      const std::string key = t.normalized && normalize ? normalize(t.content) : t.content;
      if (!key.empty()) by_content_[t.normalized][key] = i;
    }
  }

  /// The text cut at tokens of the kind that is found before normalising, or after.
  std::vector<found_piece> cut(const std::string& text, bool normalized) const {
    std::vector<found_piece> out;
    std::size_t done = 0;
    const auto& tokens = by_content_[normalized];
    for (std::size_t at = 0; at < text.size() && !tokens.empty();) {
      const auto found = longest(tokens, text, at);
      if (found == tokens.end() || (all_[found->second].single_word && within_word(text, at, found->first.size()))) {
        at += found == tokens.end() ? 1 : found->first.size();
        continue;
      }
      const added_token& t = all_[found->second];
      const std::size_t own_end = at + found->first.size();
      std::size_t begin = at, end = own_end;
      if (t.strips_left) {
        const auto before = space_at_end_.ranges(text.substr(done, begin - done));
        if (!before.empty() && before.back().match) begin = done + before.back().begin;
      }
      if (t.strips_right) {
        const auto behind = space_at_begin_.ranges(text.substr(end));
        if (!behind.empty() && behind.front().match) end += behind.front().end;
      }
      if (begin > done) out.push_back({text.substr(done, begin - done), -1, done, begin});
      out.push_back({{}, t.id, begin, own_end});
      at = done = end;
    }
    if (done < text.size()) out.push_back({text.substr(done), -1, done, text.size()});
    return out;
  }

 private:
  using contents = std::map<std::string, std::size_t, std::less<>>;

  static contents::const_iterator longest(const contents& tokens, std::string_view text, std::size_t at) {
    // Contents that begin alike are neighbours: the last that isn't behind the text is the longest, or shares less.
    std::string_view rest = text.substr(at);
    for (auto it = tokens.upper_bound(rest); it != tokens.begin();) {
      --it;
      if (rest.starts_with(it->first)) return it;
      std::size_t common = 0;
      while (common < rest.size() && common < it->first.size() && rest[common] == it->first[common]) ++common;
      if (common == 0) break;
      rest = rest.substr(0, common);
      it = tokens.upper_bound(rest);
    }
    return tokens.end();
  }
  bool within_word(const std::string& text, std::size_t begin, std::size_t n) const {
    const auto matches = [](const std::vector<text_range>& r) {
      return std::any_of(r.begin(), r.end(), [](const text_range& one) { return one.match; });
    };
    return (begin > 0 && matches(word_at_end_.ranges(std::string_view(text).substr(0, begin)))) ||
           (begin + n < text.size() && matches(word_at_begin_.ranges(std::string_view(text).substr(begin + n))));
  }

  std::vector<added_token> all_;
  contents by_content_[2];
  pattern word_at_end_, word_at_begin_, space_at_end_, space_at_begin_;
};

}  // namespace weft::detail
