// Reading PTX by words: what the readers of a unit and of a kernel share. Invariant: a reader only goes forward, and
// knows its line.
#pragma once

#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "program.hpp"

namespace device {

inline std::string_view trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return s;
}
/// At commas that stand in no bracket.
std::vector<std::string_view> listed(std::string_view s);
/// An integer, 0f and 0d with the bits of a float, or a decimal fraction as a double.
std::optional<std::uint64_t> number_in(std::string_view s);

class words {
 public:
  explicit words(std::string_view text, int line = 1) : text_(text), line_(line) {}
  bool done() {
    skip_space();
    return at_ >= text_.size();
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool eat(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  /// A colon that isn't a part of `shared::cta`.
  bool eat_label() { return peek() == ':' && !text_.substr(at_).starts_with("::") && eat(':'); }
  /// Letters, digits, and what names and directives have beside them.
  std::string_view word() {
    skip_space();
    const std::size_t first = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  std::string_view("_$.%").find(text_[at_]) != std::string_view::npos))
      ++at_;
    return text_.substr(first, at_ - first);
  }
  /// Up to one of `stops`, which is passed.
  std::string_view until(std::string_view stops) {
    const std::size_t first = at_;
    while (at_ < text_.size() && stops.find(text_[at_]) == std::string_view::npos) next();
    const std::string_view out = text_.substr(first, at_ - first);
    if (at_ < text_.size()) next();
    return out;
  }
  /// What stands in the braces that begin here.
  std::string_view braces() {
    peek();
    const std::size_t first = at_ + 1;
    int depth = 0;
    do {
      if (at_ >= text_.size()) throw refused("PTX: a brace isn't closed");
      depth += text_[at_] == '{' ? 1 : text_[at_] == '}' ? -1 : 0;
      next();
    } while (depth > 0);
    return text_.substr(first, at_ - first - 1);
  }
  int number() {
    const auto x = number_in(word());
    if (!x) throw refused("PTX, line " + std::to_string(line_) + ": a number is missing");
    return static_cast<int>(*x);
  }
  int line() const { return line_; }
  std::size_t position() const { return at_; }
  std::string_view from(std::size_t position) const { return text_.substr(position, at_ - position); }
  void go_back(std::size_t position, int line) { at_ = position, line_ = line; }

 private:
  void next() { line_ += text_[at_++] == '\n'; }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) next();
  }
  std::string_view text_;
  std::size_t at_ = 0;
  int line_;
};

/// .align 8 .b8 name[1040]: what is declared after the space.
struct declaration {
  std::string name;
  std::uint32_t align = 1;
  std::uint64_t bytes = 0;
  type of;
};
declaration read_declaration(words& from);

}  // namespace device
