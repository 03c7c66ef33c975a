// A tokenizer, and what the files beside it say of its texts: the token that ends one, and how chats are written.
// Invariant: where that isn't certain, it is asked for.
#pragma once

#include <filesystem>
#include <string>

#include <weft/io/chat_format.hpp>
#include <weft/io/file.hpp>
#include <weft/io/tokenizer.hpp>

namespace examples {

/// The chat format that a chat template writes; empty: none that is known here. Judged by what published templates have
/// and others don't: a system message of their own, a date, thoughts.
inline std::string format_of_template(const std::string& jinja) {
  const auto has = [&](const char* words) { return jinja.find(words) != jinja.npos; };
  const bool chatml = has("<|im_start|>"), llama3 = has("<|start_header_id|>"), inst = has("[INST]");
  if (chatml + llama3 + inst != 1) return {};
  if (chatml &&
      has("not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>'))") &&
      has("loop.last or (not loop.last and reasoning_content)") && has("'<think>\\n\\n</think>\\n\\n'") &&
      has("{%- if '</think>' in content %}"))
    return "qwen3";  // others with thoughts write something otherwise
  if (has("think")) return {};
  if (llama3)
    return has("Cutting Knowledge Date") || has("date_string") || has("<|start_header_id|>system") ? "" : "llama3";
  if (inst && has("<<SYS>>")) return "llama2";
  if (inst) return has("'[INST] ' + message['content'] + ' [/INST]'") ? "mistral" : "";
  if (has("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."))
    return has("{{\\\"name\\\"") ? "" : "qwen2.5";  // some tell of calls in doubled braces
  if (has("You are a helpful assistant.<|im_end|>")) return "qwen2";
  return has("<|im_start|>system") || has("bos_token") ? "" : "chatml";
}

class tokenizer_folder {
 public:
  /// Of a folder with tokenizer.json, or of such a file; tokenizer_config.json and chat_template.jinja may lie beside.
  explicit tokenizer_folder(const std::string& path)
      : folder_(path.ends_with(".json") ? std::filesystem::path(path).parent_path().string() : path),
        words_(path.ends_with(".json") ? path : path + "/tokenizer.json") {
    if (folder_.empty()) folder_ = ".";
    if (!std::filesystem::exists(config())) return;
    const nlohmann::json said = weft::read_json(config());
    if (!said.is_object()) return;
    if (const auto end = said.find("eos_token"); end != said.end()) {
      if (end->is_string()) end_ = end->get<std::string>();
      if (end->is_object()) end_ = string_in(*end, "content");
    }
    if (const auto jinja = said.find("chat_template"); jinja != said.end()) {
      if (jinja->is_string()) template_ = jinja->get<std::string>(), template_of_ = config();
      if (jinja->is_array())  // several, each with its name
        for (const nlohmann::json& one : *jinja)
          if (string_in(one, "name") == "default") template_ = string_in(one, "template"), template_of_ = config();
    }
  }

  const std::string& folder() const { return folder_; }
  const weft::tokenizer& words() const { return words_; }
  /// eos_token of tokenizer_config.json; empty: it has none.
  const std::string& end_of_text() const { return end_; }

  /// The format that a chat is written in: `asked`, or, where that is "auto", the chat template's, and without one that
  /// whose special tokens the vocabulary has. Throws weft::failure where none is known, and where the vocabulary lacks
  /// one of its tokens.
  std::string chat_format(const std::string& asked) const {
    const std::string format = asked == "auto" ? by_itself() : asked;
    for (const std::string& t : weft::chat_tokens(format))
      weft::require(words_.id_of(t) >= 0, "the tokenizer has no token ", t, ", which the chat format ", format,
                    " is written with; give another --chat FORMAT");
    return format;
  }

 private:
  std::string config() const { return folder_ + "/tokenizer_config.json"; }
  std::string by_itself() const {
    constexpr const char* formats = "give --chat FORMAT: chatml, qwen2, qwen2.5, qwen3, llama3, llama2 or mistral";
    std::string jinja = template_, path = template_of_;
    if (const std::string alone = folder_ + "/chat_template.jinja"; std::filesystem::exists(alone)) {
      path = alone;
      jinja = weft::read_file(alone, std::size_t{1} << 24);
    }
    if (!path.empty()) {
      const std::string format = format_of_template(jinja);
      weft::require(!format.empty(), "the chat template of ", path,
                    " writes chats in none of the formats that are known here; take the nearest: ", formats);
      return format;
    }
    const auto has = [&](const char* format) {
      for (const std::string& t : weft::chat_tokens(format))
        if (words_.id_of(t) < 0) return false;
      return true;
    };
    weft::require(has("chatml") != has("llama3"), "the tokenizer's special tokens don't say how a chat is written; ",
                  formats);
    return has("chatml") ? "chatml" : "llama3";
  }
  // A string member; empty: there is none.
  static std::string string_in(const nlohmann::json& object, const char* name) {
    const auto at = object.is_object() ? object.find(name) : object.end();
    return at != object.end() && at->is_string() ? at->get<std::string>() : "";
  }

  std::string folder_;
  weft::tokenizer words_;
  std::string end_, template_, template_of_;
};

}  // namespace examples
