// What a tokenizer does to text first: prepends, replaces, brings it to a normal form of Unicode (by utf8proc).
#pragma once

#include <cstdlib>
#include <utf8proc.h>

#include <weft/io/tokenizer/step.hpp>

namespace weft::detail {

using text_step = std::function<std::string(std::string)>;

inline std::string unicode_form(const std::string& text, int options) {
  utf8proc_uint8_t* made = nullptr;
  const auto n =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &made, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  if (n < 0) return text;  // no UTF-8: it stays as it is
  std::string out(reinterpret_cast<char*>(made), static_cast<std::size_t>(n));
  std::free(made);
  return out;
}

inline text_step read_normalizer(const nlohmann::json& said, const std::string& path) {
  json_fields f(said, path, "normalizer");
  const std::string type = f.string("type", "");
  text_step out;
  if (type == "Sequence") {
    std::vector<text_step> steps;
    if (const nlohmann::json* const all = f.find("normalizers"))
      for (const nlohmann::json& one : *all) steps.push_back(read_normalizer(one, path));
    out = [steps](std::string text) {
      for (const text_step& step : steps) text = step(std::move(text));
      return text;
    };
  } else if (type == "Prepend") {
    out = [front = f.string("prepend", "")](const std::string& text) { return text.empty() ? text : front + text; };
  } else if (type == "Replace") {
    out = [from = read_pattern(f, "pattern", path), to = f.string("content", "")](const std::string& text) {
      std::string replaced;
      for (const text_range& r : from.ranges(text)) replaced += r.match ? to : text.substr(r.begin, r.end - r.begin);
      return replaced;
    };
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    const int options =
        (type.ends_with('C') ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (type.size() == 4 ? UTF8PROC_COMPAT : 0);
    out = [options](const std::string& text) { return unicode_form(text, options); };
  } else {
    fail_of_step(path, "normalizer", type);
  }
  f.finish();
  return out;
}

}  // namespace weft::detail
