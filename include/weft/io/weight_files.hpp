// The files of a folder's weights: model.safetensors, or several with an index. Invariant: who reads the folder finds
// the model of before or the new one, whole, or, for a moment in which its config.json becomes another, none; what is
// taken along changes with it.
#pragma once

#include <weft/io/config_beside.hpp>
#include <weft/io/folder_texts.hpp>
#include <weft/io/save_weights.hpp>

namespace weft::detail {

/// The index of a folder whose weights lie in several files.
inline std::string index_of(const std::string& folder) { return files_of_model(folder).index; }

/// Tensors by files of at most so many bytes, but for one that has more by itself.
inline std::vector<safetensors_header> cut_by_bytes(safetensors_header all, std::uint64_t most,
                                                    const std::string& folder) {
  std::vector<safetensors_header> files;
  std::uint64_t held = 0;
  for (safetensors_entry& e : all.tensors) {
    const std::uint64_t bytes = bytes_of(folder, in_quotes(e.name), e);
    if (files.empty() || bytes > most - std::min(held, most)) files.push_back({0, {}, all.metadata}), held = 0;
    files.back().tensors.push_back(std::move(e)), held += bytes;
  }
  if (files.empty()) files.push_back(std::move(all));
  return files;
}

/// The files that a folder's index names, where it has one that can be read.
inline std::set<std::string> indexed_files(const std::string& folder) {
  std::set<std::string> names;
  std::error_code none;
  if (!std::filesystem::exists(index_of(folder), none)) return names;
  try {
    const nlohmann::json said = read_json(index_of(folder));
    for (const auto& [tensor, name] : said.at("weight_map").items())
      if (name.is_string()) names.insert(name.get<std::string>());
  } catch (const std::exception&) {  // it will be replaced
  }
  return names;
}

/// "model-00002-of-00007.safetensors". `second`: under the other of two names, where an index names files of the first.
inline std::vector<std::string> names_of_files(std::int64_t count, bool second) {
  if (count == 1) return {"model.safetensors"};
  std::vector<std::string> out;
  for (std::int64_t f = 1; f <= count; ++f) {
    char number[64];
    std::snprintf(number, sizeof number, "-%05lld-of-%05lld.safetensors", static_cast<long long>(f),
                  static_cast<long long>(count));
    out.push_back((second ? "weights" : "model") + std::string(number));
  }
  return out;
}

/// Whether names_of_files() may have given one of several files this name, finished or not, or the only one,
/// unfinished.
inline bool is_shard_name(std::string_view name) {
  if (name == "model.safetensors.unfinished") return true;
  const auto word = [&](std::string_view w) { return name.starts_with(w) && (name.remove_prefix(w.size()), true); };
  const auto number = [&] {
    const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    return name.remove_prefix(digits), digits >= 5;
  };
  return (word("model-") || word("weights-")) && number() && word("-of-") && number() && word(".safetensors") &&
         (name.empty() || name == ".unfinished");
}

/// The files in a folder that have such names: its index's, and what runs left that died while they wrote, one whole
/// file too.
inline std::set<std::string> shards_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code none;
  for (const std::filesystem::path& entry : entries_of(folder))
    if (std::string name = entry.filename().string();
        is_shard_name(name) && std::filesystem::is_regular_file(entry, none))
      names.insert(std::move(name));
  return names;
}

/// Removes a folder's files of before, as many as go; the first's reason where one doesn't, else nothing. `names`: of
/// files that are new.
inline std::string remove_old_files(const std::string& folder, std::set<std::string> old,
                                    const std::vector<std::string>& names) {
  for (const std::string& name : names) old.erase(name);
  std::string said;
  for (const std::string& name : old) {
    const std::string path = folder + '/' + name;
    if (std::remove(path.c_str()) != 0 && errno != ENOENT && said.empty())
      said = text("the file ", path, " can't be removed: ", std::strerror(errno));
  }
  return said;
}

/// Makes a model whole again, and removes what was begun of these files, after a save that failed. The first rank does.
inline void clear_after_failure(const context& ctx, const model_files& files,
                                const std::vector<std::string>& begun = {}) {
  if (!ctx.is_first()) return;
  try {
    clear_left(files);
    for (const std::string& path : begun) std::remove(unfinished(path).c_str());
  } catch (const std::exception&) {  // who reads the folder is told what to rename
  }
}

/// Gives files that are written their names, then the folder to them, and removes those of before, and what is left of
/// runs that died before they did. By one rank. Throws weft::file_error where one of these can't be removed, which says
/// that the new weights are whole, and whether they are what is read.
inline void publish_files(const std::string& folder, const folder_texts& texts, const std::vector<std::string>& names,
                          const std::vector<safetensors_header>& headers) {
  const model_files m = files_of_model(folder);
  const std::string& config = texts.files.at("config.json");
  std::map<std::string, std::string> others;  // by path
  for (const auto& [name, content] : texts.files)
    if (name != "config.json") others.emplace(folder + '/' + name, content);
  std::error_code none;
  for (const auto& [path, content] : others)  // which would keep its name when the weights have theirs
    if (std::filesystem::is_directory(path, none)) fail_of_file(path, "written", EISDIR);
  const std::set<std::string> before = indexed_files(folder);
  const bool several = names.size() > 1;
  if (several) {
    for (const std::string& name : names) finish_output(folder + '/' + name);
    nlohmann::json map = nlohmann::json::object();
    std::uint64_t bytes = 0;
    for (std::size_t f = 0; f < names.size(); ++f) {
      for (const safetensors_entry& e : headers[f].tensors) map[e.name] = names[f];
      bytes += headers[f].tensors.back().end;
    }
    const std::string text =
        nlohmann::json{{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}}.dump(1) + '\n';
    write_unfinished(m.index, text);
  }
  for (const auto& [path, content] : others) {  // after what says that the weights have no names yet
    if (path.starts_with(folder + '/' + more_templates)) make_folder(folder + '/' + more_templates);
    write_unfinished(path, content);
  }
  write_unfinished(m.config, config);
  change_together(m, config, others, [&] {
    if (several && !is_there(m.config) && std::filesystem::is_regular_file(m.one, none))
      put_aside(m.one);  // it goes before an index
    finish_output(several ? m.index : m.one);
  });
  const std::string hiding =  // what names the old weights
      remove_old_files(folder, {several ? "model.safetensors" : "model.safetensors.index.json"}, {});
  std::set<std::string> old = shards_in(folder);
  for (const std::string& path : {m.config, m.one}) old.insert(set_aside(path).substr(folder.size() + 1));
  for (const std::string& name : before)
    if (name.find('/') == name.npos && name.ends_with(".safetensors")) old.insert(name);
  if (texts.with_tokenizer)
    for (const std::string& name : taken_files(folder))
      if (!texts.files.contains(name)) old.insert(name);
  const std::string left = remove_old_files(folder, old, names);
  sync_folder_of(m.one);
  if (hiding.empty() && left.empty()) return;
  const bool hidden = !hiding.empty() && several;  // one file is read before an index
  throw file_error(text("the new weights in ", folder, " are whole, ",
                        hidden ? "and are read once a file of before is gone: " : "and are read; of those of before ",
                        hiding.empty() ? left : hiding, "; remove it"));
}

/// Writes a folder's texts and its weights in files of at most so many bytes; what was there before is replaced when
/// all are whole. All ranks call it, and all see the folder. texts: on the first rank.
template <class Backend>
void write_folder(context& ctx, const std::string& folder, const folder_texts& texts, const std::vector<outgoing>& all,
                  std::int64_t most_bytes) {
  require(most_bytes >= 1, "files of at most ", most_bytes, " bytes hold nothing: most_bytes is 1 or more");
  std::vector<safetensors_header> headers;
  std::int64_t says[2] = {};  // how many files, and whether under the second name
  safetensors_header tensors = all_tensors(ctx, all);
  on_all_or_none(ctx, [&] {
    if (!ctx.is_first()) return;
    make_folder(folder);
    clear_left(files_of_model(folder));
    headers = cut_by_bytes(std::move(tensors), static_cast<std::uint64_t>(most_bytes), folder);
    says[0] = static_cast<std::int64_t>(headers.size());
    for (const std::string& name : indexed_files(folder)) says[1] |= name.starts_with("model-");
  });
  ctx.world.host().all_reduce(says, says, 2, dtype::i64, reduction::max, {"files of weights"}).wait();
  std::vector<std::string> names, paths;
  on_all_or_none(ctx, [&] {
    names = names_of_files(says[0], says[1] != 0);
    for (const std::string& name : names) paths.push_back(folder + '/' + name);
  });
  const model_files m = files_of_model(folder);
  try {
    const auto files = fill_files<Backend>(ctx, paths, headers, all);
    on_all_or_none(ctx, [&] {
      for (const auto& file : files) file->sync();
    });
    on_all_or_none(ctx, [&] {
      if (ctx.is_first()) publish_files(folder, texts, names, headers);
    });
  } catch (...) {  // on all ranks; what was begun takes no space
    clear_after_failure(ctx, m, paths);
    throw;
  }
}

}  // namespace weft::detail
