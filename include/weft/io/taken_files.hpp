// A folder's files beside config.json and weights that belong to its tokenizer or to generation. Invariant: what such a
// file is called while it is written tells which one it becomes.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>

#include <weft/io/output_file.hpp>

namespace weft::detail {

inline constexpr std::array taken_names{"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "vocab.txt",
                                        "merges.txt",
                                        "tekken.json",
                                        "generation_config.json",
                                        "tiktoken.model"};
inline constexpr std::array taken_beginnings{"tokenizer.model", "chat_template."};  // .v3, .jinja, ...
inline constexpr const char* more_templates = "additional_chat_templates";          // a folder

/// The files in a folder that belong to its tokenizer or to generation; of those of its own folder "FOLDER/NAME".
/// ending: those that have it behind these names, which is left out.
inline std::set<std::string> taken_files(const std::string& folder, std::string_view ending = "") {
  namespace fs = std::filesystem;
  std::set<std::string> names;
  std::error_code none;
  const auto named = [&](const fs::path& path) {
    std::string name = path.filename().string();
    if (!name.ends_with(ending) || fs::is_directory(path, none)) return std::string();
    name.resize(name.size() - ending.size());
    return name;
  };
  for (const fs::path& path : entries_of(folder)) {
    const std::string name = named(path);
    bool taken = std::find(taken_names.begin(), taken_names.end(), name) != taken_names.end();
    for (const char* beginning : taken_beginnings) taken = taken || name.starts_with(beginning);
    if (taken && !name.ends_with(".unfinished")) names.insert(name);
  }
  const std::string more = folder + '/' + more_templates;
  if (!fs::is_directory(more, none)) return names;
  for (const fs::path& path : entries_of(more))
    if (const std::string name = named(path); name.ends_with(".jinja")) names.insert(more_templates + ('/' + name));
  return names;
}

}  // namespace weft::detail
