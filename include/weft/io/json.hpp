// Writing JSON: one growing text, commas and escapes put in by itself. Nothing here reads JSON.
// Invariant: what is written is valid JSON whatever bytes the strings hold and whatever the numbers are.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <weft/core/finite.hpp>
#include <weft/core/linked.hpp>

namespace weft {

namespace detail {

/// Length of the valid UTF-8 character at the front of `text` (RFC 3629), 0 if there is none.
inline std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char c = at(0);
  const std::size_t n = c < 0x80                ? 1
                        : c >= 0xC2 && c < 0xE0 ? 2
                        : c >= 0xE0 && c < 0xF0 ? 3
                        : c >= 0xF0 && c < 0xF5 ? 4
                                                : 0;
  if (n == 0 || n > text.size()) return 0;
  for (std::size_t i = 1; i < n; ++i)
    if ((at(i) & 0xC0) != 0x80) return 0;
  if (n == 3 && ((c == 0xE0 && at(1) < 0xA0) || (c == 0xED && at(1) > 0x9F))) return 0;  // overlong, surrogate
  if (n == 4 && ((c == 0xF0 && at(1) < 0x90) || (c == 0xF4 && at(1) > 0x8F))) return 0;  // overlong, above U+10FFFF
  return n;
}

}  // namespace detail

/// `text` as the inside of a JSON string. Bytes that are not UTF-8 become U+FFFD.
WEFT_LINKED std::string json_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 8);
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t n = detail::utf8_length(text);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else if (n == 0)
      out += "\xEF\xBF\xBD";
    else
      out += text.substr(0, n);
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

/// `json_writer w; w.begin_object().member("step", 3).key("losses").begin_array().value(1.5).end_array().end_object();`
/// json_writer(n) puts the members of the outermost n levels on lines of their own; the default writes one line.
class json_writer {
 public:
  explicit json_writer(int lines = 0) : lines_(lines) {}

  json_writer& begin_object() { return open('{'); }
  json_writer& end_object() { return close('}'); }
  json_writer& begin_array() { return open('['); }
  json_writer& end_array() { return close(']'); }
  json_writer& key(std::string_view name) {
    separate();
    ((text_ += '"') += json_escape(name)) += "\":";
    after_key_ = true;
    return *this;
  }

  json_writer& value(std::string_view s) { return raw('"' + json_escape(s) + '"'); }
  json_writer& value(const char* s) { return value(std::string_view(s)); }
  json_writer& value(const std::string& s) { return value(std::string_view(s)); }
  json_writer& value(bool b) { return raw(b ? "true" : "false"); }
  json_writer& value(std::integral auto n) { return raw(std::to_string(n)); }
  /// 9 significant digits; null for what JSON has no number for.
  json_writer& value(double x) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.9g", x);
    return raw(detail::is_finite(x) ? digits : "null");
  }
  template <class T>
  json_writer& member(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  /// Text that is JSON already, as the next value.
  json_writer& raw(std::string_view json) {
    separate();
    text_ += json;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void separate() {
    if (std::exchange(after_key_, false)) return;
    if (!fresh_) text_ += ',';
    fresh_ = false;
    if (depth_ > 0 && depth_ <= lines_) indent();
  }
  void indent() { text_.append("\n").append(static_cast<std::size_t>(2 * depth_), ' '); }
  json_writer& open(char bracket) {
    separate();
    text_ += bracket;
    fresh_ = true;
    ++depth_;
    return *this;
  }
  json_writer& close(char bracket) {
    if (--depth_ < lines_ && !fresh_) indent();
    text_ += bracket;
    fresh_ = false;
    return *this;
  }

  std::string text_;
  int lines_, depth_ = 0;
  bool fresh_ = true;       // no comma before what comes next
  bool after_key_ = false;  // nothing at all before it
};

}  // namespace weft
