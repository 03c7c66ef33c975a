// What is said so far, as the text that a model continues. Invariant: it ends where the model's answer begins, and with
// the answer fits into what the model reads at once, or consists of the last message alone.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <weft/io/chat_format.hpp>
#include <weft/io/tokenizer.hpp>

#include "../shared/tokenizer_folder.hpp"

namespace weft_chat {

/// A tokenizer of texts that have their special tokens written out. The tokens that end all texts say nothing.
struct words_of_chats {
  const weft::tokenizer& words;
  bool special;  // whether a text gets those that its template has
  std::vector<std::int32_t> encode(const std::string& text) const { return words.encode(text, special); }
  std::vector<std::int32_t> ends;  // of a text
  bool is_end(std::int32_t token) const { return std::find(ends.begin(), ends.end(), token) != ends.end(); }
  std::string decode(std::vector<std::int32_t> tokens) const {
    std::erase_if(tokens, [&](std::int32_t token) { return is_end(token); });
    return words.decode(tokens);
  }
  std::int64_t size() const { return words.end_of_ids(); }
};

class conversation {
 public:
  /// format: of a chat, or "none". end_tokens: that end a text, beside tokenizer_config.json's. limit: how many tokens
  /// the model reads at once.
  conversation(const examples::tokenizer_folder& of, const std::string& format, const std::string& system,
               const std::vector<std::int32_t>& end_tokens, std::int64_t limit)
      : words_{of.words(), format == "none", end_tokens}, format_(format), limit_(limit) {
    if (!of.end_of_text().empty()) {
      words_.ends.push_back(of.words().id_of(of.end_of_text()));
      weft::require(words_.ends.back() >= 0, "the file ", of.folder(), "/tokenizer_config.json has the eos_token ",
                    of.end_of_text(), ", which tokenizer.json beside it doesn't have: they aren't of one model");
    }
    if (!system.empty()) said_.push_back({"system", system});
    first_ = said_.size();
  }

  const words_of_chats& words() const { return words_; }
  bool is_chat() const { return format_ != "none"; }
  void begin_again() { said_.resize(first_); }

  /// The text that the model continues by an answer of at most `room` tokens. Returns how many earlier messages were
  /// left out for it.
  std::size_t ask(const std::string& line, std::int64_t room, std::string& prompt) {
    if (!is_chat()) return prompt = line, 0;
    said_.push_back({"user", line});
    std::size_t left_out = 0;
    while (prompt = before_answer(), said_.size() > first_ + 2 && tokens_of(prompt) + room > limit_) {
      said_.erase(said_.begin() + std::ptrdiff_t(first_), said_.begin() + std::ptrdiff_t(first_) + 2);
      left_out += 2;
    }
    return left_out;
  }
  void answered(const std::string& text) {
    if (is_chat()) said_.push_back({"assistant", text});
  }

  /// The token that ends an answer; -1: none does.
  std::int32_t end_of_answer() const {
    if (!is_chat()) return -1;
    const weft::chat_text two = weft::write_chat(format_, {{"user", "a"}, {"assistant", "a"}});
    const auto [begin, end] = two.answers.back();
    return words_.encode(two.text.substr(begin, end - begin)).back();
  }

 private:
  std::string before_answer() const {
    std::vector<weft::chat_message> all = said_;
    all.push_back({"assistant", ""});
    const weft::chat_text chat = weft::write_chat(format_, all);
    return chat.text.substr(0, chat.answers.back().first);
  }
  std::int64_t tokens_of(const std::string& text) const { return std::ssize(words_.encode(text)); }

  words_of_chats words_;
  std::string format_;
  std::int64_t limit_;
  std::vector<weft::chat_message> said_;
  std::size_t first_ = 0;  // messages that stay: the system's
};

}  // namespace weft_chat
