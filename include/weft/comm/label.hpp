// What a collective is for: who asks for it, the tensor, the unit of the model, the micro-batch, and the line of the
// program. Errors and traces say it. Invariant: it owns nothing; what it names lives until the collective is complete.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "weft/core/dims.hpp"
#include "weft/core/error.hpp"

namespace weft {

/// A line of a program: as a default argument, that of the caller.
struct call_site {
  const char* file = "";
  int line = 0;

  static constexpr call_site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// What a collective moves of the tensor that its label names: its numbers, those of its gradient, or what ranks
/// compare of it (tensor/consistency.hpp).
enum class label_kind : std::uint8_t { numbers, gradient, check };

/// Two ranks' calls of one collective must have equal labels; an empty label equals only an empty one.
struct collective_label {
  const char* what = "";      // the operation that asks, "all_reduce"; or what is moved, "weights"
  std::string_view tensor{};  // its dimensions, "[batch, seq, hidden]", or its name
  std::string_view unit{};    // of the model: "layer 3"
  std::int64_t number = -1;   // of the micro-batch, from 0; -1: of none
  call_site at{};             // where the program asks for it; no line: the library does by itself
  label_kind kind = label_kind::numbers;

  friend bool operator==(const collective_label& a, const collective_label& b) {
    return a.number == b.number && a.at.line == b.at.line && a.kind == b.kind && same(a.what, b.what) &&
           same(a.tensor, b.tensor) && same(a.unit, b.unit) && same(a.at.file, b.at.file);
  }

 private:
  static bool same(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }
  static bool same(std::string_view a, std::string_view b) {
    return a.size() == b.size() && (a.data() == b.data() || a == b);
  }
};

/// "model.cpp:34"; empty where there is no line.
[[gnu::cold]] WEFT_LINKED std::string text_of(const call_site& at) {
  if (at.line <= 0) return {};
  const std::string_view path = at.file;
  return detail::text(path.substr(path.find_last_of("/\\") + 1), ":", at.line);
}
/// "all_reduce of [batch, seq, hidden] in layer 3, micro-batch 2 (model.cpp:34)", "contract's gradient of [batch,
/// hidden]", "contract's check of [batch, hidden]", "weights of layer 3"; empty for an empty label.
[[gnu::cold]] WEFT_LINKED std::string text_of(const collective_label& label) {
  std::string out;
  const auto add = [&](std::string_view between, std::string_view part) {
    if (part.empty()) return;
    if (!out.empty()) out += between;
    out += part;
  };
  add("", label.what);
  if (label.kind != label_kind::numbers) add("'s ", label.kind == label_kind::check ? "check" : "gradient");
  add(" of ", label.tensor);
  add(label.tensor.empty() ? " of " : " in ", label.unit);
  if (label.number >= 0) add(", ", detail::text("micro-batch ", label.number));
  if (label.at.line > 0) add(" ", detail::text("(", text_of(label.at), ")"));
  return out;
}

namespace detail {

template <class Dims>
inline constexpr auto dims_characters = [] {
  constexpr std::size_t size = [] {
    std::size_t n = Dims::ndim == 0 ? 2 : 0;
    for (int d = 0; d < Dims::ndim; ++d) n += Dims::names[d].size() + 2;
    return n;
  }();
  std::array<char, size> text{};
  std::size_t at = 0;
  text[at++] = '[';
  for (int d = 0; d < Dims::ndim; ++d) {
    if (d > 0) text[at++] = ',', text[at++] = ' ';
    for (const char c : Dims::names[d]) text[at++] = c;
  }
  text[at] = ']';
  return text;
}();

}  // namespace detail

/// The names of dims<...>: "[batch, seq, hidden]".
template <class Dims>
constexpr std::string_view dims_text() {
  return {detail::dims_characters<Dims>.data(), detail::dims_characters<Dims>.size()};
}

}  // namespace weft
