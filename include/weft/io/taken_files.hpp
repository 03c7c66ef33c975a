// A folder's files beside config.json and weights that belong to its tokenizer or to generation. Invariant: what such a
// file is called while it is written tells which one it becomes.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>

#include <weft/io/file.hpp>

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
  std::error_code why, none;  // none: where there is no such folder
  const auto named = [&](const fs::directory_entry& entry) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(ending) || entry.is_directory(none)) return std::string();
    name.resize(name.size() - ending.size());
    return name;
  };
  const fs::directory_iterator all(folder, why);
  if (why) fail_of_file(folder, "read", why.value());
  for (const fs::directory_entry& entry : all) {
    const std::string name = named(entry);
    bool taken = std::find(taken_names.begin(), taken_names.end(), name) != taken_names.end();
    for (const char* beginning : taken_beginnings) taken = taken || name.starts_with(beginning);
    if (taken && !name.ends_with(".unfinished")) names.insert(name);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder + '/' + more_templates, none))
    if (const std::string name = named(entry); name.ends_with(".jinja")) names.insert(more_templates + ('/' + name));
  return names;
}

}  // namespace weft::detail
