// How a model's chats are written, by its tokenizer. Invariant: where it isn't certain, it is asked for.
#pragma once

#include <weft/io/chat_format.hpp>
#include <weft/io/tokenizer.hpp>

namespace examples {

/// The chat format whose special tokens a vocabulary has. Throws weft::failure where that is none, or several.
inline std::string chat_format_of(const weft::tokenizer& words) {
  const auto has = [&](const char* format) {
    for (const std::string& t : weft::chat_tokens(format))
      if (words.id_of(t) < 0) return false;
    return true;
  };
  weft::require(has("chatml") != has("llama3"),
                "the tokenizer's special tokens don't say how a chat is written; give --chat FORMAT: chatml, qwen2, "
                "qwen2.5, llama3, llama2 or mistral");
  return has("chatml") ? "chatml" : "llama3";
}

/// Throws weft::failure where a vocabulary lacks a token of the format.
inline void require_chat_tokens(const weft::tokenizer& words, const std::string& format) {
  for (const std::string& t : weft::chat_tokens(format))
    weft::require(words.id_of(t) >= 0, "the tokenizer has no token ", t, ", which the chat format ", format,
                  " is written with; give another --chat FORMAT");
}

}  // namespace examples
