// GPT-2's bytes as characters: every byte has a printable one. Source: openai/gpt-2, src/encoder.py.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>

#include <weft/io/tokenizer/regex.hpp>

namespace weft::detail {

inline void append_utf8(std::string& to, unsigned c) {
  if (c < 0x80)
    to += static_cast<char>(c);
  else if (c < 0x800)
    (to += static_cast<char>(0xC0 | c >> 6)) += static_cast<char>(0x80 | (c & 0x3F));
  else
    ((to += static_cast<char>(0xE0 | c >> 12)) += static_cast<char>(0x80 | (c >> 6 & 0x3F))) +=
        static_cast<char>(0x80 | (c & 0x3F));
}

/// The character of each byte.
inline const std::array<std::string, 256>& byte_characters() {
  static const auto table = [] {
    std::array<std::string, 256> out;
    unsigned next = 256;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      append_utf8(out[b], printable ? b : next++);
    }
    return out;
  }();
  return table;
}

inline std::string bytes_as_characters(std::string_view text) {
  std::string out;
  for (const char c : text) out += byte_characters()[static_cast<unsigned char>(c)];
  return out;
}

/// The bytes that a token's characters stand for; none where one of them stands for no byte.
inline std::optional<std::string> characters_as_bytes(std::string_view token) {
  static const auto table = [] {
    std::unordered_map<std::string_view, char> out;
    for (unsigned b = 0; b < 256; ++b) out[byte_characters()[b]] = static_cast<char>(b);
    return out;
  }();
  std::string out;
  while (!token.empty()) {
    const std::size_t n = character_length(token);
    const auto at = table.find(token.substr(0, n));
    if (at == table.end()) return {};
    out += at->second;
    token.remove_prefix(n);
  }
  return out;
}

}  // namespace weft::detail
