// Chats as text, as the chat templates that models were published with write them. Invariant: the text is that of
// transformers' apply_chat_template, byte for byte; an answer is what a model writes after its turn began, with the
// token that ends it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/core/error.hpp>

namespace weft {

/// What an assistant calls. arguments: JSON as Python's json.dumps(ensure_ascii=False) writes it.
struct chat_tool_call {
  std::string name, arguments;
};

struct chat_message {
  std::string role;  // system, user or assistant; in qwen2.5 and qwen3 also tool, which says what a call gave
  std::string content;
  std::vector<chat_tool_call> tool_calls = {};  // of an assistant, in qwen2.5 and qwen3
};

/// A chat's text, and which bytes of it are the assistant's: first and behind the last of each answer.
struct chat_text {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> answers;
};

/// chatml: the plain one. qwen2, qwen2.5: with their system message where a chat has none. qwen3: Qwen 3 as first
/// published, whose thoughts stand in <think> and </think> in an answer's content. llama3: Llama 3. llama2:
/// Llama 2. mistral: Mistral 7B Instruct v0.2 and Mixtral as first published, without a system message.
constexpr const char* chat_format_names[] = {"chatml", "qwen2", "qwen2.5", "qwen3", "llama3", "llama2", "mistral"};

/// The tokens that a format's text needs in a vocabulary; for another name none.
inline std::vector<std::string> chat_tokens(std::string_view format) {
  if (format == "chatml" || format.starts_with("qwen")) return {"<|im_start|>", "<|im_end|>"};
  if (format == "llama3") return {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  if (format == "llama2" || format == "mistral") return {"<s>", "</s>"};
  return {};
}

namespace detail {

// Without white space at both ends, as Python's str.strip().
inline std::string_view stripped(std::string_view s) {
  constexpr std::string_view spaces[] = {"\t",           "\n",           "\v",           "\f",           "\r",
                                         "\x1C",         "\x1D",         "\x1E",         "\x1F",         " ",
                                         "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
                                         "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
                                         "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
                                         "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view space : spaces) {
      if (s.starts_with(space)) s.remove_prefix(space.size()), again = true;
      if (s.ends_with(space)) s.remove_suffix(space.size()), again = true;
    }
  }
  return s;
}

}  // namespace detail

namespace detail {

inline std::string_view without_newlines(std::string_view s, bool front, bool back) {
  while (front && s.starts_with('\n')) s.remove_prefix(1);
  while (back && s.ends_with('\n')) s.remove_suffix(1);
  return s;
}

// What tools may be called, behind what the system says.
inline std::string qwen_tools(const std::vector<std::string>& tools) {
  std::string out =
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with "
      "function signatures within <tools></tools> XML tags:\n<tools>";
  for (const std::string& t : tools) out += "\n" + t;
  return out +
         "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
         "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
         "<args-json-object>}\n</tool_call>";
}

// Message i, a tool's, in the user's turn, which it shares with those of tools beside it.
inline void add_qwen_tool(std::string& text, const std::vector<chat_message>& chat, std::size_t i) {
  if (i == 0 || chat[i - 1].role != "tool") text += "<|im_start|>user";
  text += "\n<tool_response>\n" + chat[i].content + "\n</tool_response>";
  if (i + 1 == chat.size() || chat[i + 1].role != "tool") text += "<|im_end|>\n";
}

inline std::string qwen_call(const chat_tool_call& call) {
  return "<tool_call>\n{\"name\": \"" + call.name + "\", \"arguments\": " + call.arguments + "}\n</tool_call>";
}

// Qwen 2.5's template: tools stand in the system message, calls in the assistant's turn, what they gave in the user's.
inline chat_text write_qwen25(const std::vector<chat_message>& chat, const std::vector<std::string>& tools) {
  const bool own = chat[0].role == "system";
  chat_text out;
  out.text = "<|im_start|>system\n" +
             (own ? chat[0].content : "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
  if (!tools.empty()) out.text += "\n\n" + qwen_tools(tools);
  out.text += "<|im_end|>\n";
  for (std::size_t i = own; i < chat.size(); ++i) {
    const chat_message& m = chat[i];
    if (m.role == "tool") {
      add_qwen_tool(out.text, chat, i);
      continue;
    }
    out.text += "<|im_start|>" + m.role;
    const std::size_t begin = out.text.size() + 1;  // behind the new line
    if (m.tool_calls.empty() || !m.content.empty()) out.text += "\n" + m.content;
    for (const chat_tool_call& call : m.tool_calls) out.text += "\n" + qwen_call(call);
    out.text += "<|im_end|>";
    if (m.role == "assistant") out.answers.emplace_back(begin, out.text.size());
    out.text += "\n";
  }
  return out;
}

// Qwen 3's: no system message of its own, and thoughts, which stay behind the user's last question alone.
inline chat_text write_qwen3(const std::vector<chat_message>& chat, const std::vector<std::string>& tools) {
  const bool own = chat[0].role == "system";
  chat_text out;
  if (own || !tools.empty()) {
    out.text = "<|im_start|>system\n" + (own ? chat[0].content : "");
    if (!tools.empty()) out.text += (own ? "\n\n" : "") + qwen_tools(tools);
    out.text += "<|im_end|>\n";
  }
  std::size_t question = chat.size() - 1;  // the user's last that isn't what a tool said
  for (std::size_t i = chat.size(); i-- > 0;)
    if (const std::string& said = chat[i].content;
        chat[i].role == "user" && !(said.starts_with("<tool_response>") && said.ends_with("</tool_response>"))) {
      question = i;
      break;
    }
  for (std::size_t i = own; i < chat.size(); ++i) {
    const chat_message& m = chat[i];
    if (m.role == "tool") {
      add_qwen_tool(out.text, chat, i);
      continue;
    }
    out.text += "<|im_start|>" + m.role + "\n";
    if (m.role != "assistant") {
      out.text += m.content + "<|im_end|>\n";
      continue;
    }
    const std::size_t begin = out.text.size();
    std::string_view content = m.content, thoughts;
    if (const std::size_t end = content.find("</think>"); end != content.npos) {
      thoughts = without_newlines(content.substr(0, end), false, true);
      if (const std::size_t at = thoughts.rfind("<think>"); at != thoughts.npos) thoughts.remove_prefix(at + 7);
      thoughts = without_newlines(thoughts, true, true);
      content = without_newlines(content.substr(content.rfind("</think>") + 8), true, false);
    }
    if (i > question && (i + 1 == chat.size() || !thoughts.empty()))
      out.text.append("<think>\n")
          .append(thoughts)
          .append("\n</think>\n\n")
          .append(without_newlines(content, true, false));
    else
      out.text += content;
    for (std::size_t c = 0; c < m.tool_calls.size(); ++c)
      out.text += (c > 0 || !content.empty() ? "\n" : "") + qwen_call(m.tool_calls[c]);
    out.text += "<|im_end|>";
    out.answers.emplace_back(begin, out.text.size());
    out.text += "\n";
  }
  return out;
}

}  // namespace detail

/// tools: those that may be called, in qwen2.5 and qwen3, each as JSON in the form of a call's arguments. Throws
/// weft::failure for a format that isn't known, a role or tools that it has none of, and an order of roles that the
/// format's template refuses.
inline chat_text write_chat(std::string_view format, const std::vector<chat_message>& chat,
                            const std::vector<std::string>& tools = {}) {
  chat_text out;
  require(!chat.empty(), "a chat has no messages");
  const bool calls = format == "qwen2.5" || format == "qwen3";
  require(
      calls || tools.empty(), "there are tools, which the chat format ", format,
      " doesn't write; qwen2.5 does, with a system message of its own where a chat has none, and qwen3; or write what "
      "they say into the messages");
  const auto answer = [&](std::string_view text) {
    out.answers.emplace_back(out.text.size(), out.text.size() + text.size());
    out.text += text;
  };
  const auto add = [&](const chat_message& m, std::string_view text) {
    m.role == "assistant" ? answer(text) : void(out.text += text);
  };
  for (std::size_t i = 0; i < chat.size(); ++i) {
    const chat_message& m = chat[i];
    require(calls || (m.role != "tool" && m.tool_calls.empty()), "message ", i + 1,
            m.role == "tool" ? " is a tool's" : " calls a tool", ", which the chat format ", format,
            " doesn't write; qwen2.5 does, and qwen3, or write what it says into the messages");
    require(m.role == "system" || m.role == "user" || m.role == "assistant" || m.role == "tool", "message ", i + 1,
            " has the role ", m.role, ", and it has to be system, user or assistant", calls ? ", or tool" : "");
    require(m.tool_calls.empty() || m.role == "assistant", "message ", i + 1, " is the ", m.role,
            "'s, and calls a tool; the assistant's alone do");
  }
  if (calls) return format == "qwen3" ? detail::write_qwen3(chat, tools) : detail::write_qwen25(chat, tools);

  if (format == "chatml" || format == "qwen2") {
    if (format == "qwen2" && chat[0].role != "system")
      out.text = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n";
    for (const chat_message& m : chat) {
      out.text += "<|im_start|>" + m.role + "\n";
      add(m, m.content + "<|im_end|>");
      out.text += "\n";
    }
    return out;
  }
  if (format == "llama3") {
    out.text = "<|begin_of_text|>";
    for (const chat_message& m : chat) {
      out.text += "<|start_header_id|>" + m.role + "<|end_header_id|>\n\n";
      add(m, std::string(detail::stripped(m.content)) + "<|eot_id|>");
    }
    return out;
  }
  const bool llama2 = format == "llama2";
  require(llama2 || format == "mistral", "there is no chat format called ", format,
          "; there are chatml, qwen2, qwen2.5, qwen3, llama3, llama2 and mistral");
  const std::size_t begin = llama2 && chat[0].role == "system";
  if (!llama2) out.text = "<s>";
  for (std::size_t i = begin; i < chat.size(); ++i) {
    const chat_message& m = chat[i];
    require(m.role == ((i - begin) % 2 == 0 ? "user" : "assistant"), "message ", i + 1, " is the ", m.role,
            "'s, and in the chat format ", format, " user and assistant take turns, the user first",
            llama2 ? ", after at most one message of the system" : "");
    std::string content = m.content;
    if (begin == 1 && i == 1) content = "<<SYS>>\n" + chat[0].content + "\n<</SYS>>\n\n" + content;
    if (llama2) content = detail::stripped(content);
    if (m.role == "user")
      out.text += (llama2 ? "<s>[INST] " : "[INST] ") + content + " [/INST]";
    else
      answer(llama2 ? " " + content + " </s>" : content + "</s>");
  }
  return out;
}

}  // namespace weft
