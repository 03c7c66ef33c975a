// Regular expressions as Hugging Face's tokenizers have them, by Oniguruma (libonig), whose syntax and tables they
// mean. Invariant: offsets are bytes of UTF-8 text, and never within a character.
#pragma once

#include <memory>
#include <oniguruma.h>
#include <string>
#include <string_view>
#include <vector>

#include <weft/io/file.hpp>

namespace weft::detail {

/// A piece of a text: bytes begin ... end - 1; `match`: whether the pattern matched it.
struct text_range {
  std::size_t begin, end;
  bool match;
};

/// Bytes of the character at the front; a byte that begins none counts as one.
inline std::size_t character_length(std::string_view text) {
  const auto c = static_cast<unsigned char>(text[0]);
  const std::size_t n = c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
  return n < text.size() ? n : text.size();
}

class pattern {
 public:
  /// Throws weft::file_error with what is wrong in the pattern. `path`: the file that it is from.
  pattern(const std::string& expression, const std::string& path) : expression_(expression), path_(path) {
    const auto* const text = reinterpret_cast<const OnigUChar*>(expression.data());
    OnigErrorInfo info;
    regex_t* made = nullptr;
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    static const int ready = onig_initialize(encodings, 1);  // once for all threads
    const int code = ready != ONIG_NORMAL ? ready
                                          : onig_new(&made, text, text + expression.size(), ONIG_OPTION_NONE,
                                                     ONIG_ENCODING_UTF8, ONIG_SYNTAX_RUBY, &info);
    compiled_.reset(made, [](regex_t* r) { onig_free(r); });
    if (code == ONIG_NORMAL) return;
    OnigUChar said[ONIG_MAX_ERROR_MESSAGE_LEN];
    const int n = onig_error_code_to_str(said, code, &info);
    throw file_error(weft::detail::text("the file ", path, " has a regular expression that is none: ",
                                        std::string(reinterpret_cast<char*>(said), static_cast<std::size_t>(n))));
  }

  /// All of a text in order: what matches, one by one, and what lies between. Throws weft::failure where Oniguruma
  /// gives up, by its limits.
  std::vector<text_range> ranges(std::string_view text) const {
    std::vector<text_range> out;
    const auto* const begin = reinterpret_cast<const OnigUChar*>(text.data());
    const auto* const end = begin + text.size();
    std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> found(onig_region_new(),
                                                             [](OnigRegion* r) { onig_region_free(r, 1); });
    std::size_t done = 0;
    for (std::size_t at = 0; at <= text.size();) {
      const int where = onig_search(compiled_.get(), begin, end, begin + at, end, found.get(), ONIG_OPTION_NONE);
      if (where == ONIG_MISMATCH) break;
      if (where < 0) {
        OnigUChar said[ONIG_MAX_ERROR_MESSAGE_LEN];
        const int n = onig_error_code_to_str(said, where);
        fail("the file ", path_, " has the regular expression ", expression_, ", which fails on a text of ",
             text.size(), " bytes: ", std::string(reinterpret_cast<char*>(said), static_cast<std::size_t>(n)),
             "; cut the text into shorter ones");
      }
      const auto first = static_cast<std::size_t>(found->beg[0]), last = static_cast<std::size_t>(found->end[0]);
      if (first > done) out.push_back({done, first, false});
      if (last > first) out.push_back({first, last, true});
      done = last;
      at = last > first ? last : last < text.size() ? last + character_length(text.substr(last)) : text.size() + 1;
    }
    if (done < text.size()) out.push_back({done, text.size(), false});
    return out;
  }

 private:
  std::string expression_, path_;
  std::shared_ptr<regex_t> compiled_;
};

}  // namespace weft::detail
