// Tools and their calls in a chat's line, and JSON as a chat template's tojson writes it. Invariant: what Python would
// write otherwise than this is refused.
#pragma once

#include <charconv>
#include <map>

#include <weft/io/chat_format.hpp>
#include <weft/io/read_json.hpp>

namespace weft_tokenize {

/// An object's members in the order in which they stand, found by their names in a moment however many they are:
/// nlohmann::ordered_map looks at each. For reading: none is taken out.
template <class Key, class T, class Less = std::less<Key>, class Allocator = std::allocator<std::pair<const Key, T>>>
class members_in_order : public nlohmann::ordered_map<Key, T, Less, Allocator> {
 public:
  using nlohmann::ordered_map<Key, T, Less, Allocator>::ordered_map;

  T& operator[](const Key& name) {
    const auto [place, is_new] = places_.try_emplace(name, this->size());
    if (is_new) this->emplace_back(name, T{});
    return (*this).begin()[static_cast<std::ptrdiff_t>(place->second)].second;
  }

 private:
  std::map<Key, std::size_t, Less> places_;
};
/// JSON that is read with its members' order.
using ordered_json = nlohmann::basic_json<members_in_order>;

/// A float as Python's repr writes it.
inline std::string python_float(double x) {
  char all[64];
  const auto written = [&](std::chars_format f) { return std::string(all, std::to_chars(all, all + 64, x, f).ptr); };
  const std::string e = written(std::chars_format::scientific);
  const int exponent = std::atoi(e.c_str() + e.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return e;
  const std::string fixed = written(std::chars_format::fixed);
  return fixed.find('.') == fixed.npos ? fixed + ".0" : fixed;
}

/// As json.dumps(ensure_ascii=False). Throws weft::failure where a whole number may have been one of more than 64 bits,
/// and where values lie more than 100 deep.
inline std::string python_json(const ordered_json& j, int depth = 0) {
  weft::require(depth < 100, "tools and calls whose JSON is more than 100 deep");
  std::string out;
  const auto next = [&] { out += out.size() > 1 ? ", " : ""; };
  if (j.is_object()) {
    out = "{";
    for (const auto& [key, value] : j.items()) {
      next();
      out += python_json(key, depth + 1) + ": " + python_json(value, depth + 1);
    }
    return out + "}";
  }
  if (j.is_array()) {
    out = "[";
    for (const auto& value : j) next(), out += python_json(value, depth + 1);
    return out + "]";
  }
  if (j.is_number_float()) {
    const auto x = j.get<double>();
    weft::require(x < 0x1p63 && x > -0x1p63, "the number ", x, " of a tool or a call, which 64 bits don't hold whole");
    return python_float(x);
  }
  return j.dump();
}

/// The arguments of a call: an object, or a string of JSON that is one, as OpenAI's interface has it. `as_it_stands`:
/// such a string is written as it is, not as the object in it.
inline std::string arguments_of(const ordered_json& said, bool as_it_stands = false) {
  ordered_json parsed;
  if (said.is_string()) {
    const auto& text = said.get_ref<const std::string&>();
    weft::require(nlohmann::json::accept(text), "a call's arguments are a string that isn't JSON");
    parsed = ordered_json::parse(text);
  }
  const ordered_json& object = said.is_string() ? parsed : said;
  weft::require(object.is_object(), "a call's arguments have to be an object, {...}, or a string of one");
  return as_it_stands && said.is_string() ? said.get<std::string>() : python_json(object);
}

/// The calls of an assistant's message: objects with name and arguments, or with a `function` of these.
inline std::vector<weft::chat_tool_call> calls_of(const ordered_json& said, bool as_it_stands = false) {
  weft::require(said.is_array(), "it has to be a list of calls");
  std::vector<weft::chat_tool_call> out;
  for (const auto& one : said) {
    const bool within = one.is_object() && one.contains("function");
    const ordered_json& call = within ? one.at("function") : one;
    weft::require(
        call.is_object() && call.contains("name") && call.at("name").is_string() && call.contains("arguments"), "call ",
        out.size() + 1, " has to be an object with a name and arguments");
    out.push_back({call.at("name").get<std::string>(), arguments_of(call.at("arguments"), as_it_stands)});
  }
  return out;
}

inline std::vector<std::string> tools_of(const ordered_json& said) {
  std::vector<std::string> out;
  weft::require(said.is_array(), "it has to be a list of tools");
  for (const auto& one : said) {
    weft::require(one.is_object(), "tool ", out.size() + 1, " has to be an object");
    out.push_back(python_json(one));
  }
  return out;
}

}  // namespace weft_tokenize
