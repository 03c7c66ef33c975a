// What config.json says of a model whose layers have other numbers of heads, which no family of transformers has.
// Invariant: its model_type is one that transformers doesn't know, so nobody reads it as the whole model.
#pragma once

#include <string>

#include <weft/io/json_fields.hpp>
#include <weft/nn/layer_groups.hpp>

namespace weft {

namespace detail {
inline constexpr std::string_view pruned_prefix = "weft_pruned_";
inline bool is_pruned_type(const std::string& type) { return type.starts_with(pruned_prefix); }
}  // namespace detail

/// The family of a config.json's model_type, of a pruned model the one that it was: "llama" of "weft_pruned_llama".
inline std::string unpruned_family(const std::string& model_type) {
  return detail::is_pruned_type(model_type) ? model_type.substr(detail::pruned_prefix.size()) : model_type;
}

namespace detail {

/// Of so many layers. Throws weft::file_error where it is no list of a whole number above 0 for each.
inline layer_groups read_layer_groups(json_fields& f, std::int64_t layers) {
  const std::string name = "layer_groups";
  const nlohmann::json* const said = f.find(name);
  const auto fail = [&](const nlohmann::json& what) {
    f.fail(name, what, text("a list of ", layers, " numbers, the groups of heads in each layer, at least 1"));
  };
  if (!said) fail(nullptr);
  if (!said->is_array() || static_cast<std::int64_t>(said->size()) != layers) fail(*said);
  std::vector<std::int64_t> groups;
  for (const nlohmann::json& n : *said) {
    if (!n.is_number_unsigned() || n.get<std::uint64_t>() == 0 || n.get<std::uint64_t>() > 1u << 30) fail(*said);
    groups.push_back(n.get<std::int64_t>());
  }
  return groups;
}

/// Makes a family's config.json that of the pruned model.
inline void write_layer_groups(nlohmann::ordered_json& j, const layer_groups& groups) {
  if (groups.empty()) return;
  j["model_type"] = std::string(pruned_prefix) + j["model_type"].get<std::string>();
  j["architectures"] = {"WeftPruned" + j["architectures"][0].get<std::string>()};
  j["layer_groups"] = std::vector<std::int64_t>(groups.begin(), groups.end());
}

}  // namespace detail
}  // namespace weft
