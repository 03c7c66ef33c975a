// The members of a JSON object, each read once by name. Invariant: what nobody asked for is an error, so no field of a
// configuration is passed over in silence.
#pragma once

#include <set>
#include <string>

#include <weft/core/finite.hpp>
#include <weft/io/json.hpp>
#include <weft/io/read_json.hpp>

namespace weft {

/// An object that was read from the file `path`. A member that is null counts as one that isn't there.
class json_fields {
 public:
  /// `within`: which object of the file it is, "rope_scaling" say; empty: the whole. Throws weft::file_error where
  /// `value` is no object.
  json_fields(const nlohmann::json& value, std::string path, std::string within = {})
      : all_(value), path_(std::move(path)), within_(std::move(within)) {
    if (!all_.is_object())
      throw file_error(
          detail::text("the file ", path_, within_.empty() ? "" : ": " + within_, " is no object of JSON, { ... }"));
  }

  json_fields(nlohmann::json&&, std::string, std::string = {}) = delete;  // it would be gone

  const std::string& path() const { return path_; }

  /// The member, or null.
  const nlohmann::json* find(const std::string& name) {
    asked_.insert(name);
    const auto at = all_.find(name);
    return at == all_.end() || at->is_null() ? nullptr : &*at;
  }
  bool has(const std::string& name) { return find(name) != nullptr; }
  /// Whether it is there, as null.
  bool says_null(const std::string& name) { return all_.contains(name) && !has(name); }
  /// Known, and of no consequence here.
  void ignore(std::initializer_list<const char*> names) { asked_.insert(names.begin(), names.end()); }

  /// A field for which one value is right here, or none. Throws weft::file_error where it says another.
  void only(const std::string& name, const nlohmann::json& value) {
    const nlohmann::json* const said = find(name);
    if (said && *said != value) fail(name, *said, value.dump() + ": the library's model has nothing else");
  }

  std::int64_t whole_number(const std::string& name) { return whole_number_of(name, needed(name)); }
  std::int64_t whole_number(const std::string& name, std::int64_t otherwise) {
    const nlohmann::json* const v = find(name);
    return v ? whole_number_of(name, *v) : otherwise;
  }
  double number(const std::string& name) { return number_of(name, needed(name)); }
  double number(const std::string& name, double otherwise) {
    const nlohmann::json* const v = find(name);
    return v ? number_of(name, *v) : otherwise;
  }
  bool flag(const std::string& name, bool otherwise) {
    const nlohmann::json* const v = find(name);
    if (v && !v->is_boolean()) fail(name, *v, "true or false");
    return v ? v->get<bool>() : otherwise;
  }
  std::string string(const std::string& name, const std::string& otherwise) {
    const nlohmann::json* const v = find(name);
    if (v && !v->is_string()) fail(name, *v, "a string");
    return v ? v->get<std::string>() : otherwise;
  }

  /// Throws weft::file_error naming `name`, what it says, and what it can be.
  [[noreturn]] void fail(const std::string& name, const nlohmann::json& said, const std::string& wanted) const {
    using replace = nlohmann::json::error_handler_t;
    throw file_error(detail::text("the file ", path_, ": ", full(name), " is ",
                                  said.dump(-1, ' ', false, replace::replace).substr(0, 200), ", and has to be ",
                                  wanted));
  }
  /// Throws weft::file_error naming the members that nobody asked for, and what it would mean to go on.
  void finish(const char* without = "a model read without them might be another one") const {
    std::string unknown;
    for (const auto& [name, said] : all_.items())
      if (!asked_.contains(name) && !said.is_null()) (unknown += unknown.empty() ? "" : ", ") += full(name);
    if (!unknown.empty())
      throw file_error(
          detail::text("the file ", path_, " has fields that aren't known here: ", unknown, "; ", without));
  }

 private:
  std::string full(const std::string& name) const { return json_escape(within_.empty() ? name : within_ + '.' + name); }
  const nlohmann::json& needed(const std::string& name) {
    const nlohmann::json* const v = find(name);
    if (!v) throw file_error(detail::text("the file ", path_, " has no field ", full(name)));
    return *v;
  }
  std::int64_t whole_number_of(const std::string& name, const nlohmann::json& v) const {
    const bool fits =
        v.is_number_integer() && (!v.is_number_unsigned() || v.get<std::uint64_t>() <= std::uint64_t{1} << 62);
    if (!fits) fail(name, v, "a whole number");
    return v.get<std::int64_t>();
  }
  double number_of(const std::string& name, const nlohmann::json& v) const {
    if (!v.is_number() || !detail::is_finite(v.get<double>())) fail(name, v, "a number");
    return v.get<double>();
  }

  const nlohmann::json& all_;
  std::string path_, within_;
  std::set<std::string> asked_;
};

}  // namespace weft
