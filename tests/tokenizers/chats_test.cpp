// Chats as text and tokens against transformers, which made chats.json by the templates that models were published
// with.
#include <doctest/doctest.h>

#include <weft/io/chat_format.hpp>
#include <weft/io/tokenizer.hpp>

#include "../said_by.hpp"
#include "../source_folder.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

std::string said_of(const std::string& format, const std::vector<chat_message>& chat) {
  return said_by([&] { write_chat(format, chat); });
}

}  // namespace

TEST_CASE("a chat's text, its tokens and the assistant's are those of transformers") {
  int across = 0;  // answers whose first token begins before them
  const nlohmann::json all = read_json(weft_test::source_file("tokenizers/chats.json"));
  CHECK(all.size() == 84);
  for (const nlohmann::json& one : all) {
    std::vector<chat_message> chat;
    for (const nlohmann::json& m : one.at("messages")) chat.push_back({m.at("role"), m.at("content")});
    const chat_text made = write_chat(one.at("format").get<std::string>(), chat);
    CAPTURE(made.text);
    REQUIRE(made.text == one.at("text").get<std::string>());
    const std::string folder = one.at("tokenizer");
    const tokenizer words(weft_test::source_file("tokenizers/" + folder) + "/tokenizer.json");
    std::vector<std::size_t> places, before;
    for (const auto& [begin, behind] : made.answers) places.insert(places.end(), {begin, behind});
    const auto tokens = words.encode_with_places(made.text, places, before);
    REQUIRE(tokens == one.at("tokens").get<std::vector<std::int32_t>>());
    REQUIRE(before.size() == places.size());
    std::vector<int> loss(tokens.size());
    for (std::size_t a = 0; a < before.size(); a += 2) {
      for (std::size_t t = before[a]; t < before[a + 1]; ++t) loss[t] = 1;
      across += words.encode(made.text.substr(0, places[a]), false).size() > before[a];
    }
    CHECK(loss == one.at("loss").get<std::vector<int>>());
  }
  CHECK(across > 3);
}

TEST_CASE("an answer is what the assistant says, and what ends its turn") {
  const chat_text made = write_chat("chatml", {{"user", "Why?"}, {"assistant", "So."}});
  CHECK(made.text == "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\nSo.<|im_end|>\n");
  REQUIRE(made.answers.size() == 1);
  CHECK(made.text.substr(made.answers[0].first, made.answers[0].second - made.answers[0].first) == "So.<|im_end|>");
}

TEST_CASE("places at a text's ends, within a token and in none") {
  const tokenizer words(weft_test::source_file("tokenizers/qwen2") + "/tokenizer.json");
  const std::string text = "<|im_start|>a tensor<|im_end|>";
  std::vector<std::size_t> before{7};
  CHECK(words.encode_with_places(text, {}, before) == words.encode(text, false));
  CHECK(before.empty());
  const auto tokens = words.encode_with_places(text, {0, 3, 12, 20, 25, text.size()}, before);
  CHECK(tokens == words.encode(text, false));
  CHECK(before == std::vector<std::size_t>{0, 0, 1, tokens.size() - 1, tokens.size() - 1, tokens.size()});
  CHECK(words.encode_with_places("", {0}, before).empty());
  CHECK(before == std::vector<std::size_t>{0});
  CHECK(words.end_of_ids() == words.size());
  const tokenizer far({{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", nlohmann::json::array()}}},
                       {"added_tokens", {{{"id", 9}, {"content", "<e>"}}}}},
                      "f");
  CHECK(far.size() == 2);
  CHECK(far.end_of_ids() == 10);
}

TEST_CASE("white space that a token takes along isn't a part of it") {
  const auto added = [](int id, const char* content, bool left, bool right) {
    return nlohmann::json{{"id", id}, {"content", content}, {"lstrip", left}, {"rstrip", right}, {"special", true}};
  };
  const tokenizer words({{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", nlohmann::json::array()}}},
                         {"added_tokens", {added(7, "<u>", false, true), added(9, "<e>", true, true)}}},
                        "f");
  std::vector<std::size_t> before;
  // As chats of Phi-3's kind: behind both tokens stands a new line.
  CHECK(words.encode_with_places("<u>\na<e>\n<u>\n aa<e>\n", {4, 8, 13, 19}, before) ==
        std::vector<std::int32_t>{7, 0, 9, 7, 0, 0, 9});
  CHECK(before == std::vector<std::size_t>{1, 3, 4, 7});
  CHECK(words.encode_with_places("a <e> ", {1, 2, 4, 5, 6}, before) == std::vector<std::int32_t>{0, 9});
  CHECK(before == std::vector<std::size_t>{1, 1, 1, 2, 2});
}

TEST_CASE("a regular expression that Oniguruma gives up on is told, and not taken for one that doesn't match") {
  const detail::pattern slow("(?:a|aa)+b|x", "f.json");
  const std::string text = std::string(40, 'a') + "c x";
  CHECK(slow.ranges("aab").size() == 1);
  const unsigned long usual = onig_get_retry_limit_in_match();
  onig_set_retry_limit_in_match(1000);
  const std::string said = said_by([&] { slow.ranges(text + "b"); });
  onig_set_retry_limit_in_match(usual);
  CHECK(said.find("the file f.json has the regular expression (?:a|aa)+b|x, which fails on a text of 44 bytes: ") == 0);
  CHECK(said.find("retry-limit") != std::string::npos);
}

TEST_CASE("chats that a format has no text for") {
  CHECK(said_of("chatml", {}) == "a chat has no messages");
  CHECK(said_of("chatml", {{"tool", "4"}}) ==
        "message 1 has the role tool, and it has to be system, user or assistant");
  CHECK(said_of("chat", {{"user", "4"}}).find("there is no chat format called chat; there are chatml, qwen2") == 0);
  CHECK(said_of("llama3", {{"assistant", "4"}, {"assistant", "5"}}) == "nothing");
  CHECK(said_of("llama2", {{"system", "4"}, {"assistant", "5"}}) ==
        "message 2 is the assistant's, and in the chat format llama2 user and assistant take turns, the user first, "
        "after at most one message of the system");
  CHECK(said_of("mistral", {{"system", "4"}}) ==
        "message 1 is the system's, and in the chat format mistral user and assistant take turns, the user first");
  for (const char* const format : chat_format_names) CHECK(chat_tokens(format).size() >= 2);
  CHECK(chat_tokens("no such").empty());
}
