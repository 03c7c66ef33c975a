// Reading JSON, by nlohmann/json. Invariant: what is read has no key twice, no byte that isn't UTF-8 and no
// nesting that a stack can't walk, and every error names the file.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <weft/io/file.hpp>

namespace weft {

/// How many objects and arrays may lie within each other: what is read is walked by functions that call themselves.
inline constexpr int json_depth = 128;

/// The value that `text` is. `from` names its file in errors. Throws weft::file_error where it isn't JSON (RFC 8259),
/// has more than one value, names a member of an object twice, or nests deeper than json_depth.
inline nlohmann::json parse_json(std::string_view text, const std::string& from) {
  std::vector<std::set<std::string>> names;  // of the objects that are open just now, the outermost first
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& read) {
    using is = nlohmann::json::parse_event_t;
    if ((event == is::object_start || event == is::array_start) && depth >= json_depth)
      throw file_error(detail::text("the file ", from, " has more than ", json_depth,
                                    " objects and arrays within each other in its JSON; no model's file has"));
    if (event == is::object_start) names.emplace_back();
    if (event == is::object_end) names.pop_back();
    if (event == is::key && !names.back().insert(read.get<std::string>()).second)
      throw file_error(detail::text("the file ", from, " names ", read.dump(), " twice in one object of its JSON"));
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::parse_error& e) {
    throw file_error(detail::text("the file ", from, " isn't JSON from its byte ", e.byte, " on, of ", text.size()));
  } catch (const nlohmann::json::out_of_range&) {
    throw file_error(detail::text("the file ", from, " has a number in its JSON that no 64-bit number holds"));
  }
}

/// The value that a file is, as parse_json. Throws weft::file_error when the file can't be read, too.
inline nlohmann::json read_json(const std::string& path) {
  return parse_json(read_file(path, std::size_t{1} << 30), path);
}

}  // namespace weft
