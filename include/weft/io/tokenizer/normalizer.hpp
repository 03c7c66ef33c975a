// What a tokenizer does to text first: prepends, replaces, brings it to a normal form of Unicode (by utf8proc).
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utf8proc.h>

#include <weft/io/tokenizer/step.hpp>

namespace weft::detail {

using text_step = std::function<std::string(std::string)>;

// What normal forms change or move and Unicode has had since its version 10, first and last of each run, as of 15.
// tokenizers has the tables of version 9, in which these are characters that no form changes and nothing moves across.
inline constexpr utf8proc_int32_t after_unicode_9[][2] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x10785},
    {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
    {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
    {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

inline bool is_after_unicode_9(utf8proc_int32_t c) {
  const auto* const at = std::upper_bound(std::begin(after_unicode_9), std::end(after_unicode_9), c,
                                          [](utf8proc_int32_t x, const auto& run) { return x < run[0]; });
  return at != std::begin(after_unicode_9) && c <= at[-1][1];
}

/// Adds a text's normal form; whether it is UTF-8.
inline bool add_unicode_form(std::string_view text, int options, std::string& to) {
  utf8proc_uint8_t* made = nullptr;
  const auto n =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &made, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  if (n < 0) return false;
  to.append(reinterpret_cast<char*>(made), static_cast<std::size_t>(n));
  std::free(made);
  return true;
}

inline std::string unicode_form(const std::string& text, int options) {
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t c;
    const auto n = utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    if (n < 1) return text;  // no UTF-8: it stays as it is
    const auto size = static_cast<std::size_t>(n);
    if (is_after_unicode_9(c)) {
      if (!add_unicode_form(std::string_view(text).substr(begin, at - begin), options, out)) return text;
      out.append(text, at, size);
      begin = at + size;
    }
    at += size;
  }
  return add_unicode_form(std::string_view(text).substr(begin), options, out) ? out : text;
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
