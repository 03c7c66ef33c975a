// From a document as it stands in its file to its tokens, and which of them the loss is on. Invariant: a function of
// the document alone, so threads may take them in any order.
#pragma once

#include <weft/io/chat_format.hpp>
#include <weft/io/tokenizer.hpp>

#include "lines.hpp"
#include "tools.hpp"

namespace weft_tokenize {

struct tokens_of_document {
  std::vector<std::int32_t> tokens, loss;  // loss: of chats
  std::size_t bytes = 0;                   // of its text
  bool answered = true;                    // false: a chat without an answer
};

template <class... Parts>
[[noreturn]] void fail_of_line(const raw_document& d, const Parts&... parts) {
  throw weft::file_error(weft::detail::text("the file ", d.path, ", line ", d.line, ": ", parts...));
}

inline nlohmann::json parsed(const raw_document& d) {
  nlohmann::json said = weft::parse_json(d.bytes, d.path + ", line " + std::to_string(d.line) + ",");
  if (said.is_array())
    fail_of_line(d, "it is a list, and has to be an object; `jq -c '.[]'` makes a line of each of a list's values");
  if (!said.is_object()) fail_of_line(d, "it is no object, {...}, of JSON");
  return said;
}

/// A value in an error. What has values within is only named: it may be a million deep.
inline std::string shown(const nlohmann::json& j) {
  if (j.is_array()) return "a list";
  if (j.is_object()) return "an object";
  const std::string all = j.dump(-1, ' ', true);
  return all.size() > 60 ? all.substr(0, 57) + "..." : all;
}

/// The string that an object has under a name. `within`: of which object, in errors.
inline const std::string& string_in(const raw_document& d, const nlohmann::json& object, const std::string& name,
                                    const std::string& within = {}) {
  const auto at = object.find(name);
  if (at == object.end()) {
    std::string others;
    for (const auto& [key, value] : object.items()) (others += others.empty() ? "" : ", ") += weft::json_escape(key);
    fail_of_line(
        d, "there is no field ", within, name,
        within.empty() ? "; --field names another; there are: " : "; there are: ", others.empty() ? "none" : others);
  }
  if (!at->is_string()) fail_of_line(d, within, name, " is ", shown(*at), ", and has to be a string");
  return at->template get_ref<const std::string&>();
}

/// "messages" or "conversations"; empty: the object has neither as a list.
inline std::string chat_field(const nlohmann::json& object) {
  for (const char* const name : {"messages", "conversations"})
    if (object.contains(name) && object.at(name).is_array()) return name;
  return {};
}

/// Messages, and of each of the assistant's, whether the loss is on it.
struct chat_of_line {
  std::vector<weft::chat_message> messages;
  std::vector<bool> learned;
  std::vector<std::string> tools;
};

/// Throws where an object has a field of these that says something: no chat format here writes it.
inline void refuse_fields(const raw_document& d, const nlohmann::json& object, const std::string& within,
                          std::initializer_list<const char*> names) {
  for (const char* const name : names)
    if (const auto at = object.find(name); at != object.end() && !at->empty() && *at != "")
      fail_of_line(d, "there is a field ", within, name,
                   ", which no chat format here writes; write what it says into the messages, or leave it out");
}

/// Whether a message's weight is 1, as that of the assistant's is where it has none.
inline bool is_learned(const raw_document& d, const nlohmann::json& message, const std::string& role,
                       const std::string& within) {
  const auto at = message.find("weight");
  if (at == message.end() || at->is_null()) return true;
  if (!at->is_number() || (*at != 0 && *at != 1))
    fail_of_line(d, within, "weight is ", shown(*at), ", and has to be 0, for no loss, or 1");
  if (role != "assistant" && *at == 1)
    fail_of_line(d, within, "weight is 1, and the loss is on what the assistant says alone; leave it out");
  return *at == 1;
}

/// f(what an object has under a name), where that says something; what f says is wrong, with its place.
template <class F>
void take_field(const raw_document& d, const nlohmann::json& object, const std::string& within, const char* name,
                F&& take) {
  const auto at = object.find(name);
  if (at == object.end() || at->is_null() || at->empty() || *at == "") return;
  try {
    take();
  } catch (const weft::failure& e) {
    fail_of_line(d, within, name, ": ", e.what());
  }
}

/// strings_stand: a call's arguments that are a string are written as they are.
inline chat_of_line chat_in(const raw_document& d, const nlohmann::json& object, bool strings_stand) {
  const std::string name = chat_field(object);
  if (name.empty()) fail_of_line(d, "there is no list messages, nor conversations, as the lines before have");
  refuse_fields(d, object, "", {"functions", "system"});
  chat_of_line out;
  ordered_json ordered;  // members as they stand, which is read where tools are
  const auto in_order = [&]() -> const ordered_json& {
    return ordered.is_null() ? ordered = ordered_json::parse(d.bytes) : ordered;
  };
  take_field(d, object, "", "tools", [&] { out.tools = tools_of(in_order().at("tools")); });
  for (const nlohmann::json& m : object.at(name)) {
    const std::string within = name + '[' + std::to_string(out.messages.size()) + "].";
    if (!m.is_object())
      fail_of_line(d, within.substr(0, within.size() - 1), " is ", shown(m), ", and has to be an object");
    const bool shared = !m.contains("role") && m.contains("from");
    std::string role = string_in(d, m, shared ? "from" : "role", within);
    if (role == "human") role = "user";
    if (role == "gpt") role = "assistant";
    if (role != "system" && role != "user" && role != "assistant" && (shared || role != "tool"))
      fail_of_line(d, within, shared ? "from" : "role", " is ", shown(role), ", and has to be ",
                   shared ? "system, human or gpt" : "system, user, assistant or tool");
    refuse_fields(d, m, within, {"function_call", "reasoning_content"});
    std::vector<weft::chat_tool_call> calls;
    const std::size_t number = out.messages.size();
    take_field(d, m, within, "tool_calls",
               [&] { calls = calls_of(in_order().at(name).at(number).at("tool_calls"), strings_stand); });
    const bool learned = is_learned(d, m, role, within);
    if (role == "assistant") out.learned.push_back(learned);
    const char* const content = shared ? "value" : "content";
    const bool silent = !calls.empty() && (!m.contains(content) || m.at(content).is_null());
    out.messages.push_back({role, silent ? "" : string_in(d, m, content, within), std::move(calls)});
  }
  return out;
}

/// f(); what it says is wrong, with the document's place.
template <class F>
auto with_place(const raw_document& d, F&& f) {
  try {
    return f();
  } catch (const weft::failure& e) {
    fail_of_line(d, e.what());
  }
}

/// How documents become tokens.
struct encoding {
  const weft::tokenizer& words;
  std::string field;  // of the text; empty: documents are chats
  std::string chat;   // the format
  std::int32_t end;   // -1: none

  tokens_of_document operator()(raw_document& d) const {
    tokens_of_document out;
    if (!d.json && field.empty()) fail_of_line(d, "it is text, and the lines before are chats");
    if (d.json && field.empty()) {
      encode_chat(d, chat_in(d, parsed(d), chat == "qwen3"), out);
    } else {
      if (d.json)
        d.bytes = std::string(string_in(d, parsed(d), field));
      else
        check_utf8(d);
      out.bytes = d.bytes.size();
      if (!d.bytes.empty()) out.tokens = with_place(d, [&] { return words.encode(d.bytes); });
    }
    if (end >= 0 && !out.tokens.empty() && out.tokens.back() != end) {
      out.tokens.push_back(end);
      if (!out.loss.empty()) out.loss.push_back(0);
    }
    return out;
  }

 private:
  void encode_chat(const raw_document& d, const chat_of_line& said, tokens_of_document& out) const {
    if (said.messages.empty()) return;
    const weft::chat_text all = with_place(d, [&] { return weft::write_chat(chat, said.messages, said.tools); });
    out.bytes = all.text.size();
    std::vector<std::size_t> places, before;
    for (std::size_t a = 0; a < all.answers.size(); ++a)
      if (said.learned[a]) places.insert(places.end(), {all.answers[a].first, all.answers[a].second});
    out.answered = !places.empty();
    if (!out.answered) return;
    out.tokens = with_place(d, [&] { return words.encode_with_places(all.text, places, before); });
    out.loss.resize(out.tokens.size());
    for (std::size_t a = 0; a < before.size(); a += 2)
      for (std::size_t t = before[a]; t < before[a + 1]; ++t) out.loss[t] = 1;
  }
};

}  // namespace weft_tokenize
