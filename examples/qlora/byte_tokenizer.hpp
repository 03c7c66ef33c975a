// The tokenizer of a model of bytes, as files that Hugging Face's packages read: byte-pair encoding without a pair, so
// that token n is the byte n.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <weft/io/file.hpp>

/// Writes tokenizer.json and tokenizer_config.json to a folder. Such files have a character for every byte, as GPT-2
/// chose them: its own where that shows, else one from 256 on.
inline void write_byte_tokenizer(const std::string& folder) {
  const nlohmann::json bytes{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  nlohmann::json vocab;
  unsigned next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool shows = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
    const unsigned c = shows ? b : next++;
    vocab[c < 0x80 ? std::string{char(c)} : std::string{char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))}] = b;  // UTF-8
  }
  const nlohmann::json none = nlohmann::json::array(), model{{"type", "BPE"}, {"vocab", vocab}, {"merges", none}};
  const nlohmann::json words{
      {"version", "1.0"}, {"model", model}, {"pre_tokenizer", bytes}, {"decoder", bytes}, {"added_tokens", none}};
  weft::write_file(folder + "/tokenizer.json", words.dump());
  weft::write_file(folder + "/tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
}
