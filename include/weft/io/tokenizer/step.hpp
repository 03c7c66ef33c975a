// What the steps of a tokenizer have in common: how they are described in tokenizer.json.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <weft/io/json_fields.hpp>
#include <weft/io/tokenizer/regex.hpp>

namespace weft::detail {

/// {"String": s} or {"Regex": r}.
inline pattern read_pattern(json_fields& f, const std::string& name, const std::string& path) {
  const nlohmann::json* const said = f.find(name);
  if (!said) throw file_error(text("the file ", path, " has a step without its ", name));
  json_fields one(*said, path, name);
  if (one.has("Regex")) return {one.string("Regex", ""), path};
  std::string escaped;
  for (const char c : one.string("String", "")) {
    if (std::string_view(R"(\^$.|?*+()[]{}-#&~ )").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  one.finish();
  return {escaped, path};
}

/// The character that stands for a space in Metaspace's pieces.
inline std::string read_mark(json_fields& f) {
  const std::string mark = f.string("replacement", "\u2581");
  if (mark.empty() || character_length(mark) != mark.size()) f.fail("replacement", mark, "one character");
  return mark;
}

[[noreturn]] inline void fail_of_step(const std::string& path, const std::string& what, const std::string& type) {
  throw file_error(text("the file ", path, " has a ", what, " of type ", type, ", which isn't offered here"));
}

}  // namespace weft::detail
