// Chats as text and tokens against transformers, which made chats.json by the templates that models were published
// with.
#include <doctest/doctest.h>

#include <weft/io/chat_format.hpp>
#include <weft/io/tokenizer.hpp>

#include "../../examples/weft_tokenize/tools.hpp"
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
  int called = 0;
  const auto all = weft_tokenize::ordered_json::parse(read_file(weft_test::source_file("tokenizers/chats.json")));
  CHECK(all.size() == 138);
  for (const weft_tokenize::ordered_json& one : all) {
    std::vector<chat_message> chat;
    for (const weft_tokenize::ordered_json& m : one.at("messages")) {
      chat.push_back({m.at("role"), m.at("content")});
      if (m.contains("tool_calls")) chat.back().tool_calls = weft_tokenize::calls_of(m.at("tool_calls")), ++called;
    }
    std::vector<std::string> tools;
    if (one.contains("tools")) tools = weft_tokenize::tools_of(one.at("tools"));
    const chat_text made = write_chat(one.at("format").get<std::string>(), chat, tools);
    CAPTURE(made.text);
    REQUIRE(made.text == one.at("text").get<std::string>());
    const auto folder = one.at("tokenizer").get<std::string>();
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
  CHECK(called > 10);
}

namespace {

// A name that counts how often two of them are compared.
struct counted_name {
  static inline long compared = 0;
  int number;
  friend bool operator==(const counted_name& a, const counted_name& b) { return ++compared, a.number == b.number; }
  friend bool operator<(const counted_name& a, const counted_name& b) { return ++compared, a.number < b.number; }
};

}  // namespace

TEST_CASE("an object's members keep their order, and reading them takes no square of their number") {
  weft_tokenize::members_in_order<counted_name, int> all;
  const int n = 20000;
  for (int i = 0; i < n; ++i) all[{i * 7919 % n}] = i;  // each name once
  CHECK(all.size() == n);
  CHECK(counted_name::compared < 40L * n);  // a search among 20000 compares 15 times, and a little more
  for (int i = 0; i < n; ++i) CHECK_UNARY(all[{i * 7919 % n}] == i);
  for (int i = 0; i < n; ++i) CHECK_UNARY((all.begin()[i].first.number == i * 7919 % n && all.begin()[i].second == i));
  CHECK(all.size() == n);
  std::string text = "{";
  for (int i = 0; i < n; ++i) text += (i ? ", \"" : "\"") + std::to_string(i * 7919 % n) + "\": " + std::to_string(i);
  text += "}";
  const auto read = weft_tokenize::ordered_json::parse(text);
  CHECK(weft_tokenize::python_json(read) == text);
  const auto copy = read;  // finds its own
  CHECK(copy.at("7919") == 1);
  CHECK(weft_tokenize::python_json(weft_tokenize::ordered_json::parse(R"({"b":{"z":1,"a":2},"a":[]})")) ==
        R"({"b": {"z": 1, "a": 2}, "a": []})");
}

TEST_CASE("JSON is written as Python writes it") {
  const auto written = [](const char* text) {
    return weft_tokenize::python_json(weft_tokenize::ordered_json::parse(text));
  };
  // By json.dumps(json.loads(text), ensure_ascii=False).
  CHECK(written("[1.0,-0.0,1e15,1E16,123456789012345680.0,0.0001,0.00001,5e-324,1.5,9223372036854775807,-0]") ==
        "[1.0, -0.0, 1000000000000000.0, 1e+16, 1.2345678901234568e+17, 0.0001, 1e-05, 5e-324, 1.5, "
        "9223372036854775807, 0]");
  CHECK(written(R"({"z":null,"a":{"b":[],"c":[{}]},"t":"\u00e9\u007f\/\b\f\u0001\"\ud83d\ude00"})") ==
        "{\"z\": null, \"a\": {\"b\": [], \"c\": [{}]}, \"t\": "
        "\"\xC3\xA9\x7F/\\b\\f\\u0001\\\"\xF0\x9F\x98\x80\"}");
  CHECK(said_by([&] { written("[123456789012345678901234567890]"); }).find("which 64 bits don't hold whole") !=
        std::string::npos);
  CHECK(said_by([&] { written((std::string(200, '[') + std::string(200, ']')).c_str()); }).find("100 deep") !=
        std::string::npos);
  const auto calls = [](const char* text) { return weft_tokenize::calls_of(weft_tokenize::ordered_json::parse(text)); };
  CHECK(calls(R"([{"name":"f","arguments":"{\"b\":1,\"a\":2}"}])")[0].arguments == "{\"b\": 1, \"a\": 2}");
  CHECK(said_by([&] { calls(R"([{"name":"f","arguments":"{b"}])"); }) ==
        "a call's arguments are a string that isn't JSON");
  CHECK(said_by([&] { calls(R"([{"name":"f","arguments":[1]}])"); }).find("have to be an object") != std::string::npos);
  CHECK(said_by([&] { calls(R"([{"function":{"name":"f"}}])"); }) ==
        "call 1 has to be an object with a name and arguments");
  CHECK(said_by([&] { calls(R"({"name":"f"})"); }) == "it has to be a list of calls");
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
  CHECK(said_of("chatml", {{"other", "4"}}) ==
        "message 1 has the role other, and it has to be system, user or assistant");
  CHECK(said_of("qwen2.5", {{"other", "4"}}).find("it has to be system, user or assistant, or tool") !=
        std::string::npos);
  for (const std::string format : {"chatml", "qwen2", "llama3", "llama2", "mistral"}) {
    CHECK(said_of(format, {{"user", "4"}, {"tool", "4"}}) ==
          "message 2 is a tool's, which the chat format " + format +
              " doesn't write; qwen2.5 does, and qwen3, or write what it says into the messages");
    CHECK(said_of(format, {{"assistant", "", {{"f", "{}"}}}})
              .find("message 1 calls a tool, which the chat format " + format) == 0);
    CHECK(said_by([&] {
            write_chat(format, {{"user", "4"}}, {"{}"});
          }).find("there are tools, which the chat format " + format + " doesn't write") == 0);
  }
  CHECK(said_of("qwen2.5", {{"user", "4", {{"f", "{}"}}}}).find("message 1 is the user's, and calls a tool") == 0);
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
