// tokenizer.json of each kind against tokenizers, which made expected.json, and files that something is amiss with.
#include <random>

#include <doctest/doctest.h>

#include <weft/io/tokenizer.hpp>

#include "../source_folder.hpp"
#include "../temporary.hpp"

using namespace weft;

namespace {

const char* const kinds[] = {"gpt2",
                             "llama3",
                             "llama2",
                             "qwen2",
                             "prefixes",
                             "prefix_space",
                             "metaspace_first",
                             "metaspace_always",
                             "metaspace_never",
                             "split_removed",
                             "split_merged_with_previous",
                             "split_merged_with_next",
                             "split_contiguous"};

std::string folder_of(const std::string& kind) { return weft_test::source_file("tokenizers/" + kind); }

nlohmann::json smallest() {
  return {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}}};
}
std::string refused_file(const nlohmann::json& said) {
  try {
    tokenizer(said, "f");
  } catch (const file_error& e) {
    return e.what();
  }
  return "not refused";
}
std::string refused(const std::string& patch) {
  nlohmann::json said = smallest();
  said.merge_patch(nlohmann::json::parse(patch));
  return refused_file(said);
}

// Every value within j.
void collect(nlohmann::json& j, std::vector<nlohmann::json*>& out) {
  out.push_back(&j);
  if (j.is_structured())
    for (nlohmann::json& one : j) collect(one, out);
}

}  // namespace

TEST_CASE("tokens and texts are those of tokenizers") {
  for (const char* kind : kinds) {
    CAPTURE(kind);
    const tokenizer t(folder_of(kind) + "/tokenizer.json");
    const nlohmann::json rows = read_json(folder_of(kind) + "/expected.json");
    CHECK(rows.size() == 60);
    for (const nlohmann::json& row : rows) {
      const std::string text = row[0];
      CAPTURE(text);
      const auto ids = row[1].get<std::vector<std::int32_t>>();
      std::vector<std::int32_t> odd;
      for (std::size_t i = 1; i < ids.size(); i += 2) odd.push_back(ids[i]);
      CHECK(t.encode(text) == ids);
      CHECK(t.encode(text, false) == row[2].get<std::vector<std::int32_t>>());
      CHECK(t.decode(ids) == row[3].get<std::string>());
      CHECK(t.decode(ids, true) == row[4].get<std::string>());
      CHECK(t.decode(odd) == row[5].get<std::string>());
    }
  }
}

TEST_CASE("tokens have names and numbers") {
  const tokenizer t(folder_of("llama3") + "/tokenizer.json");
  CHECK(t.size() == 420);
  CHECK(t.id_of("<|eot_id|>") == 1);
  CHECK(t.id_of("no such") == -1);
  CHECK_THROWS_WITH_AS(t.decode({5, 420}), "token 420 is not of the vocabulary, which has 420 tokens", failure);
}

// The numbers of tests/tokenizers/peer: what the package computes.
TEST_CASE("characters that Unicode has had since its version 10 are left alone by normal forms, as by tokenizers") {
  const int composed = UTF8PROC_COMPOSE, compatible = UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
  const auto form = [](const char8_t* text, int options) {
    return detail::unicode_form(reinterpret_cast<const char*>(text), options);
  };
  const auto is = [](const char8_t* text) { return std::string(reinterpret_cast<const char*>(text)); };
  CHECK(form(u8"e\u0301\uFB01", composed) == is(u8"\u00E9\uFB01"));
  CHECK(form(u8"e\u0301\uFB01", compatible) == is(u8"\u00E9fi"));
  CHECK(form(u8"e\u0301\u32FFe\u0301", compatible) == is(u8"\u00E9\u32FF\u00E9"));  // an era's name of 2019
  CHECK(form(u8"\u32FF", compatible) == is(u8"\u32FF"));
  CHECK(form(u8"a\u0345\u0315\u0301", composed) == is(u8"\u00E1\u0315\u0345"));   // marks in their order
  CHECK(form(u8"a\u0345\u0898\u0301", composed) == is(u8"a\u0345\u0898\u0301"));  // one of 2021: none moves
  CHECK(form(u8"\U00011935\U00011930", composed) == is(u8"\U00011935\U00011930"));
  CHECK(form(u8"\U00011938", UTF8PROC_DECOMPOSE) == is(u8"\U00011938"));
  CHECK(form(u8"", composed).empty());
  const std::string broken = is(u8"e\u0301\u32FF") + "\xFF";
  CHECK(detail::unicode_form(broken, compatible) == broken);
}

TEST_CASE("bytes that are no UTF-8 are encoded too, and come back from tokens of bytes") {
  const tokenizer t(folder_of("gpt2") + "/tokenizer.json");
  CHECK(t.decode(t.encode("a\xFFz\xC3")) == "a\xEF\xBF\xBDz\xEF\xBF\xBD");
}

TEST_CASE("what isn't known or isn't sound is refused by its name") {
  CHECK(refused(R"({})") == "not refused");
  CHECK(refused(R"({"model":{"type":"Unigram"}})") ==
        "the file f has a model of type Unigram, which isn't offered here");
  CHECK(refused(R"({"model":{"vocab":null}})") == "the file f has no object model.vocab");
  CHECK(refused(R"({"model":{"merges":null}})") == "the file f has no list model.merges");
  CHECK(refused(R"({"model":{"vocab":{"a":-1}}})") ==
        "the file f: model.vocab is -1, and has to be a number from 0 to 2^31 - 1 for every token");
  CHECK(refused(R"({"model":{"merges":["a c"]}})") ==
        "the file f: model.merges is \"a c\", and has to be two tokens of vocab that together make a third");
  CHECK(refused(R"({"model":{"merges":["a"]}})") ==
        "the file f: model.merges is \"a\", and has to be two tokens with a space between");
  CHECK(refused(R"({"model":{"unk_token":"?"}})") ==
        "the file f: model.unk_token is \"?\", and has to be a token of vocab");
  CHECK(refused(R"({"model":{"dropout":0.1}})") ==
        "the file f: model.dropout is 0.1, and has to be null: the library's model has nothing else");
  CHECK(refused(R"({"normalizer":{"type":"Magic"}})") ==
        "the file f has a normalizer of type Magic, which isn't offered here");
  CHECK(refused(R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"}})") ==
        "the file f has a regular expression that is none: end pattern with unmatched parenthesis");
  CHECK(refused(R"({"decoder":{"type":"Fuse","speed":3}})")
            .starts_with("the file f has fields that aren't known here: decoder.speed"));
  CHECK(refused(R"({"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}]}})")
            .find("has to be a Sequence, or one of special_tokens") != std::string::npos);
  for (const char* id : {"1e+30", "-1", "2147483648", "18446744073709551615", "\"a\"", "null"}) {
    CAPTURE(std::string(id));
    const std::string said =
        refused(R"({"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],)"
                R"("special_tokens":{"x":{"ids":[)" +
                std::string(id) + "]}}}}");
    CHECK(said.find("special_tokens is " + std::string(id) + ", and has to be a token's id") != std::string::npos);
  }
  for (const char* part : {"decoder", "pre_tokenizer"})
    for (const char* mark : {"", "ab"})
      CHECK(refused(nlohmann::json{{part, {{"type", "Metaspace"}, {"replacement", mark}}}}.dump()) ==
            "the file f: " + std::string(part) + ".replacement is \"" + mark + "\", and has to be one character");
  CHECK(refused(R"({"truncation":{"max_length":3}})").starts_with("the file f: truncation is "));
  CHECK(refused(R"({"new":1})").starts_with("the file f has fields that aren't known here: new"));
}

TEST_CASE("a changed file is refused with a sentence, or reads texts") {
  std::mt19937 random(5);
  int sound = 0, changed = 0;
  for (const char* kind : kinds) {
    CAPTURE(kind);
    nlohmann::json whole = read_json(folder_of(kind) + "/tokenizer.json");
    // The steps are where a file differs from others; a small vocabulary makes each try quick.
    whole["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"ab", 2}, {"<unk>", 3}, {"\u0120", 4}};
    whole["model"]["merges"] = {"a b"};
    for (int i = 0; i < 300; ++i) {
      nlohmann::json file = whole;
      std::vector<nlohmann::json*> values;
      collect(file, values);
      nlohmann::json& at = *values[random() % values.size()];
      const nlohmann::json others[] = {nullptr,
                                       true,
                                       -1,
                                       3,
                                       1e300,
                                       "",
                                       "a",
                                       "\\",
                                       "(",
                                       nlohmann::json::array(),
                                       nlohmann::json::object(),
                                       *values[random() % values.size()]};
      at = others[random() % std::size(others)];
      ++changed;
      try {
        const tokenizer t(file, "f");
        const auto ids = t.encode("a ab <s>  b\xFF \xE2\x96\x81 1");
        t.decode(ids);
        ++sound;
      } catch (const failure&) {
      }
    }
  }
  CHECK(sound > changed / 20);
  CHECK(sound < changed);
}
