// Weights, and the configuration and the tokenizer beside them, which change together. Several files can't change at
// one moment, so while they do, the configuration has no name: first the weights get theirs, by one rename, then the
// tokenizer's files, and the configuration last. Invariant: whatever ends a save, no weights are there under the
// configuration or beside the tokenizer of others, and what is left becomes the model of before or the new one by
// renames.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include <weft/io/output_file.hpp>
#include <weft/io/read_json.hpp>
#include <weft/io/taken_files.hpp>

namespace weft {
namespace detail {

/// What a file is called while another takes its place.
inline std::string set_aside(const std::string& path) { return path + ".before"; }

inline bool is_there(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

/// The files by which a model is found. Without several files of weights `index` is empty. `folder`: whose
/// taken_files() belong to the model; empty: none do.
struct model_files {
  std::string config, one, index, folder = {};

  bool has_unnamed_weights() const {
    return is_there(unfinished(one)) || (!index.empty() && is_there(unfinished(index)));
  }
  /// Of its tokenizer's files those that a save began and didn't name.
  std::vector<std::string> unnamed_texts() const {
    std::vector<std::string> paths;
    if (!folder.empty())
      for (const std::string& name : taken_files(folder, ".unfinished")) paths.push_back(folder + '/' + name);
    return paths;
  }
};
inline model_files files_of_model(const std::string& folder) {
  return {folder + "/config.json", folder + "/model.safetensors", folder + "/model.safetensors.index.json", folder};
}

/// The renames by which a model is whole again after a save that was killed while its files changed; none: it is, or
/// was never there.
inline std::vector<std::pair<std::string, std::string>> renames_left(const model_files& m) {
  std::vector<std::pair<std::string, std::string>> all;
  if (is_there(m.config)) return all;
  if (!m.has_unnamed_weights()) {
    if (!is_there(unfinished(m.config))) return all;
    for (const std::string& path : m.unnamed_texts()) all.emplace_back(unfinished(path), path);
    all.emplace_back(unfinished(m.config), m.config);
  } else {
    if (!is_there(m.one) && is_there(set_aside(m.one))) all.emplace_back(set_aside(m.one), m.one);
    if (is_there(set_aside(m.config))) all.emplace_back(set_aside(m.config), m.config);
  }
  return all;
}

/// Removes what a save left, where it is there.
inline void remove_left(const std::string& path) {
  if (std::remove(path.c_str()) != 0 && errno != ENOENT) fail_of_file(path, "removed", errno);
}

/// Does these renames, and removes what else such a save left. By one rank, before a save and after one that failed.
/// Throws where a file can't get its name, and removes nothing then, or can't be removed.
inline void clear_left(const model_files& m) {
  for (const auto& [from, to] : renames_left(m)) {
    if (std::rename(from.c_str(), to.c_str()) != 0) fail_of_file(to, "written", errno);
    sync_folder_of(to);
  }
  remove_left(unfinished(m.config));  // first: without unnamed weights it would count as the new model's
  for (const std::string& path : m.unnamed_texts()) remove_left(unfinished(path));
  for (const std::string& path : {m.one, m.index})
    if (!path.empty()) remove_left(unfinished(path));
  if (!is_there(m.config)) return;
  for (const std::string& path : {m.one, m.config}) std::remove(set_aside(path).c_str());
}

/// Gives a file that is in the way the name that it has meanwhile.
inline void put_aside(const std::string& path) {
  if (std::rename(path.c_str(), set_aside(path).c_str()) != 0) fail_of_file(path, "written", errno);
  sync_folder_of(path);
}

/// Names unfinished files: by `weights()` the weights, by a last rename of what finds them, then texts, and the
/// configuration. config, texts: what these hold, texts by their paths. Where one of them becomes another, and where no
/// configuration is there, it has no name meanwhile. By one rank, when all is on the disk. Where this throws,
/// clear_left() makes the model whole.
template <class F>
void change_together(const model_files& m, const std::string& config, const std::map<std::string, std::string>& texts,
                     F&& weights) {
  const auto changes = [](const std::string& path, const std::string& to) {
    return !is_there(path) || read_file(path) != to;
  };
  if (is_there(m.config)) {
    bool any = changes(m.config, config);
    for (const auto& [path, to] : texts) any = any || changes(path, to);
    if (any) put_aside(m.config);
  }
  weights();
  for (const auto& [path, to] : texts) finish_output(path);
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
