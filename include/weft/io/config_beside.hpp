// Weights and the configuration beside them, which change together. Two files can't change at one moment, so while the
// weights do, a configuration that becomes another has no name. Invariant: whatever ends a save, no weights are there
// under the configuration of others, and what is left becomes the model of before or the new one by renames.
#pragma once

#include <utility>
#include <vector>

#include <weft/io/output_file.hpp>
#include <weft/io/read_json.hpp>

namespace weft {
namespace detail {

/// What a file is called while another takes its place.
inline std::string set_aside(const std::string& path) { return path + ".before"; }

inline bool is_there(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

/// The files by which a model is found. Without several files of weights `index` is empty.
struct model_files {
  std::string config, one, index;

  bool has_unnamed_weights() const {
    return is_there(unfinished(one)) || (!index.empty() && is_there(unfinished(index)));
  }
};
inline model_files files_of_model(const std::string& folder) {
  return {folder + "/config.json", folder + "/model.safetensors", folder + "/model.safetensors.index.json"};
}

/// The renames by which a model is whole again after a save that was killed while its files changed; none: it is, or
/// was never there.
inline std::vector<std::pair<std::string, std::string>> renames_left(const model_files& m) {
  std::vector<std::pair<std::string, std::string>> all;
  if (is_there(m.config)) return all;
  if (!m.has_unnamed_weights()) {
    if (is_there(unfinished(m.config))) all.emplace_back(unfinished(m.config), m.config);
  } else if (is_there(set_aside(m.config))) {
    if (!is_there(m.one) && is_there(set_aside(m.one))) all.emplace_back(set_aside(m.one), m.one);
    all.emplace_back(set_aside(m.config), m.config);
  }
  return all;
}

/// Does these renames, and removes what else such a save left. By one rank, before a save and after one that failed.
/// Throws where a file can't get its name, and removes nothing then.
inline void clear_left(const model_files& m) {
  for (const auto& [from, to] : renames_left(m)) {
    if (std::rename(from.c_str(), to.c_str()) != 0) fail_of_file(to, "written", errno);
    sync_folder_of(to);
  }
  for (const std::string& path : {m.one, m.index, m.config})
    if (!path.empty()) std::remove(unfinished(path).c_str());
  if (!is_there(m.config)) return;
  for (const std::string& path : {m.one, m.config}) std::remove(set_aside(path).c_str());
}

/// Gives the unfinished configuration its name, and by `weights(changes)` the weights theirs, by a last rename of what
/// finds them; changes: whether the configuration becomes another. By one rank, when all is on the disk. Where this
/// throws, clear_left() makes the model whole.
template <class F>
void change_together(const model_files& m, const std::string& config, F&& weights) {
  const bool changes = is_there(m.config) && read_file(m.config) != config;
  if (changes) {
    if (std::rename(m.config.c_str(), set_aside(m.config).c_str()) != 0) fail_of_file(m.config, "written", errno);
    sync_folder_of(m.config);
  }
  weights(changes);
  finish_output(m.config);
}

/// A model's configuration. Throws weft::file_error where it can't be read; what a killed save left is named.
inline nlohmann::json read_config(const model_files& m) {
  std::string renames;
  for (const auto& [from, to] : renames_left(m)) renames += text(renames.empty() ? "" : " and ", from, " to ", to);
  if (!renames.empty())
    throw file_error(text("the file ", m.config, " isn't there, since a save was killed while it changed the model's ",
                          "files; save the model there again, or rename ", renames));
  return read_json(m.config);
}

}  // namespace detail

/// A folder's config.json. Throws weft::file_error where it can't be read; where a save was killed while the model's
/// files changed, with what to rename.
inline nlohmann::json read_config_json(const std::string& folder) {
  return detail::read_config(detail::files_of_model(folder));
}

}  // namespace weft
