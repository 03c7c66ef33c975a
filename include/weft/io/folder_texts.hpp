// What a folder of Hugging Face's has beside its weights: config.json, and a tokenizer, chat templates and settings of
// generation, taken from another folder. Invariant: what is taken along has the bytes that it had.
#pragma once

#include <filesystem>
#include <map>
#include <set>

#include <weft/io/common_fields.hpp>
#include <weft/io/config_beside.hpp>

namespace weft {

/// How a model's folder is written. like: a folder whose tokenizer, chat templates and generation_config.json are taken
/// along, byte by byte, with what its config.json says of bos_token_id, eos_token_id and pad_token_id: the folder has
/// these then, and no others; empty: those that lie in the folder stay, and config.json says that there are no such
/// tokens. The first rank reads it. most_bytes: of a file of weights; where one would have more, there are several,
/// with an index.
struct folder_settings {
  std::string like = {};
  std::int64_t most_bytes = 50'000'000'000;
};

namespace detail {

/// A folder's files of text, by their names in it.
struct folder_texts {
  std::map<std::string, std::string> files;
  bool with_tokenizer = false;  // the others of taken_files go

  std::string& config() { return files["config.json"]; }
};

/// Makes a config.json say of tokens what that of another folder says, which may say nothing.
inline void take_token_ids(const model_files& like, std::string& config) {
  const nlohmann::json said = read_config(like);
  json_fields f(said, like.config);
  auto own = nlohmann::ordered_json::parse(config);
  const std::int64_t tokens = f.whole_number("vocab_size", 0), rows = own.at("vocab_size").get<std::int64_t>();
  if (tokens > rows)
    f.fail("vocab_size", tokens,
           text(rows,
                " at most, as the model that is saved like it has it: its tokenizer is of "
                "another model; give that model's folder"));
  for (const char* name : token_id_fields) {
    const nlohmann::json* const id = f.find(name);
    if (id)
      for (const nlohmann::json& one : id->is_array() ? *id : nlohmann::json::array({*id}))
        if (!one.is_number_integer()) f.fail(name, *id, "a token's number, or a list of them");
    if (said.contains(name))
      own[name] = said.at(name);
    else
      own.erase(name);  // transformers takes the same default as there
  }
  config = own.dump(2) + '\n';
}

/// Adds what is taken from the folder 'like'. Throws weft::file_error where it is no folder, has nothing of this,
/// belongs to a model of more tokens, or isn't whole since a save was killed.
inline void take_texts(const std::string& like, folder_texts& to) {
  std::error_code none;
  if (!std::filesystem::is_directory(like, none))
    throw file_error(text("the folder ", like,
                          ", whose tokenizer is to be taken along, isn't there; give a model's "
                          "folder as \"like\", or leave it out"));
  const std::set<std::string> names = taken_files(like);
  const model_files files = files_of_model(like);
  const bool has_config = is_there(files.config) || !renames_left(files).empty();  // then read_config() throws
  if (names.empty() && !has_config)
    throw file_error(text("the folder ", like,
                          " has neither a tokenizer's files nor config.json, so there is nothing "
                          "to take along; give a model's folder as \"like\", or leave it out"));
  if (has_config) take_token_ids(files, to.config());
  for (const std::string& name : names) to.files[name] = read_file(like + '/' + name, std::size_t{1} << 30);
  to.with_tokenizer = true;
}

}  // namespace detail
}  // namespace weft
