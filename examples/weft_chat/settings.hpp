// What weft-chat is told. Plain data.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include <weft/train/sampling.hpp>

namespace weft_chat {

struct settings {
  std::string folder;            // a model's, with tokenizer.json
  std::string weights = "bf16";  // fp32, bf16, int8 or nf4
  std::string chat = "auto";     // the chat format; auto: tokenizer_folder's; none: lines are continued
  std::string system;            // the first message; empty: none
  int threads = 0;               // 0: one for each core
  weft::sampling sample;
  std::vector<std::int32_t> end_tokens;  // each ends an answer, beside those of the chat format and the tokenizer
};

/// A conversation on stdin and stdout with a model of these families, until stdin ends or `stop` is true while a line
/// is waited for; while a reply is written, that alone ends it. Throws what weft throws.
void talk_to_llama(const settings& s, std::atomic<bool>& stop);
void talk_to_gpt2(const settings& s, std::atomic<bool>& stop);

}  // namespace weft_chat
