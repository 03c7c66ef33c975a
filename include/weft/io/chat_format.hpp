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

struct chat_message {
  std::string role;  // system, user or assistant
  std::string content;
};

/// A chat's text, and which bytes of it are the assistant's: first and behind the last of each answer.
struct chat_text {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> answers;
};

/// chatml: the plain one. qwen2, qwen2.5: with their system message where a chat has none. llama3: Llama 3. llama2:
/// Llama 2. mistral: Mistral 7B Instruct v0.2 and Mixtral as first published, without a system message.
constexpr const char* chat_format_names[] = {"chatml", "qwen2", "qwen2.5", "llama3", "llama2", "mistral"};

/// The tokens that a format's text needs in a vocabulary; for another name none.
inline std::vector<std::string> chat_tokens(std::string_view format) {
  if (format == "chatml" || format == "qwen2" || format == "qwen2.5") return {"<|im_start|>", "<|im_end|>"};
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

/// Throws weft::failure for a format that isn't known, a role that it has none of, and an order of roles that the
/// format's template refuses.
inline chat_text write_chat(std::string_view format, const std::vector<chat_message>& chat) {
  chat_text out;
  require(!chat.empty(), "a chat has no messages");
  const auto answer = [&](std::string_view text) {
    out.answers.emplace_back(out.text.size(), out.text.size() + text.size());
    out.text += text;
  };
  const auto add = [&](const chat_message& m, std::string_view text) {
    m.role == "assistant" ? answer(text) : void(out.text += text);
  };
  for (std::size_t i = 0; i < chat.size(); ++i)
    require(chat[i].role == "system" || chat[i].role == "user" || chat[i].role == "assistant", "message ", i + 1,
            " has the role ", chat[i].role, ", and it has to be system, user or assistant");

  if (format == "chatml" || format == "qwen2" || format == "qwen2.5") {
    if (format != "chatml" && chat[0].role != "system")
      out.text = std::string("<|im_start|>system\n") +
                 (format == "qwen2" ? "" : "You are Qwen, created by Alibaba Cloud. ") +
                 "You are a helpful assistant.<|im_end|>\n";
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
          "; there are chatml, qwen2, qwen2.5, llama3, llama2 and mistral");
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
