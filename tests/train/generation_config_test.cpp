// generation_config.json of Hugging Face's folders: what is read, what isn't said, and which fields are refused.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include <doctest/doctest.h>

#include <weft/train/generation_config.hpp>

#include "../said_by.hpp"
#include "../said_on_stderr.hpp"
#include "../temporary.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

generation_config read(const nlohmann::json& j, const sampling& otherwise = {}) {
  return parse_generation_config(j, "f", otherwise);
}
std::string refused(const nlohmann::json& j) {
  return said_by([&] { read(j); });
}

}  // namespace

TEST_CASE("what is said is read") {
  const generation_config c = read({{"do_sample", true},
                                    {"temperature", 0.6},
                                    {"top_k", 20},
                                    {"top_p", 0.95},
                                    {"min_p", 0.05},
                                    {"repetition_penalty", 1.05},
                                    {"max_new_tokens", 7},
                                    {"stop_strings", {"a", "b"}},
                                    {"eos_token_id", {3, 2147483647}},
                                    {"bos_token_id", 1},
                                    {"pad_token_id", 0},
                                    {"transformers_version", "5.24.0"}});
  CHECK(c.end_tokens == std::vector<std::int32_t>{3, 2147483647});
  CHECK(c.sample.temperature == 0.6);
  CHECK(c.sample.top_k == 20);
  CHECK(c.sample.top_p == 0.95);
  CHECK(c.sample.min_p == 0.05);
  CHECK(c.sample.repetition_penalty == 1.05);
  CHECK(c.sample.penalty_window == std::numeric_limits<std::int64_t>::max());
  CHECK(c.sample.tokens == 7);
  CHECK(c.sample.stop_strings == std::vector<std::string>{"a", "b"});
  check(c.sample);
  CHECK(read({{"eos_token_id", 5}}).end_tokens == std::vector<std::int32_t>{5});
  CHECK(read({{"stop_strings", "a"}}).sample.stop_strings == std::vector<std::string>{"a"});
}

TEST_CASE("what isn't said is the caller's, and transformers' where draws are asked for") {
  const sampling mine{.tokens = 9, .temperature = 0.3, .top_k = 4, .top_p = 0.5, .min_p = 0.1, .repetition_penalty = 2};
  const sampling kept = read({{"eos_token_id", nullptr}, {"_from_model_config", true}}, mine).sample;
  CHECK(kept.temperature == 0.3);
  CHECK(kept.top_k == 4);
  CHECK(kept.top_p == 0.5);
  CHECK(kept.min_p == 0.1);
  CHECK(kept.repetition_penalty == 2);
  CHECK(kept.penalty_window == 64);
  CHECK(kept.tokens == 9);
  const sampling drawn = read({{"do_sample", true}}, mine).sample;
  CHECK(drawn.temperature == 1);
  CHECK(drawn.top_k == 50);
  CHECK(drawn.top_p == 1);
  CHECK(drawn.min_p == 0);
  const sampling likeliest = read({{"do_sample", false}, {"top_k", 50}, {"temperature", 1.0}}, mine).sample;
  CHECK(likeliest.temperature == 0);
  CHECK(likeliest.top_k == 4);
}

TEST_CASE("draws without do_sample are passed over, as transformers does, and so is max_length") {
  const sampling mine{.temperature = 0.3, .top_k = 4, .top_p = 0.5, .min_p = 0.1};
  for (const char* field : {"temperature", "top_k", "top_p", "min_p"}) {
    const generation_config unsaid = read({{field, 0.25}}, mine),
                            off = read({{field, 0.25}, {"do_sample", false}}, mine);
    CHECK(unsaid.passed_over == std::vector<std::string>{field});
    CHECK(off.passed_over == unsaid.passed_over);
    CHECK(unsaid.sample.temperature == 0.3);
    CHECK(off.sample.temperature == 0);
    for (const sampling& s : {unsaid.sample, off.sample}) {
      CHECK(s.top_k == 4);
      CHECK(s.top_p == 0.5);
      CHECK(s.min_p == 0.1);
    }
    CHECK(read({{field, 1}, {"do_sample", true}}).passed_over.empty());
    CHECK(refused({{field, "x"}}) == "the file f: " + std::string(field) + " is \"x\", and has to be a number");
  }
  CHECK(read({{"temperature", 0}, {"top_k", 50}, {"top_p", 1}, {"min_p", 0}}).passed_over.empty());
  CHECK(read({{"max_length", 20}}).passed_over == std::vector<std::string>{"max_length"});
  CHECK(read({{"max_length", 20}, {"max_new_tokens", 5}}).passed_over.empty());
}

TEST_CASE("what is passed over is said on stderr, once for all ranks and readings") {
  const weft_test::temporary_folder folder;
  write_file(folder / "generation_config.json", R"({"temperature": 0.6, "top_p": 0.9, "max_length": 4096})");
  const std::string said = weft_test::said_on_stderr([&] {
    for (int i = 0; i < 3; ++i) read_generation_config(folder.path());
  });
  const std::string file = "weft: the file " + (folder / "generation_config.json");
  CHECK(
      said ==
      file + " says temperature, top_p, and do_sample isn't true: passed over, as by transformers\n" + file +
          " says max_length, of prompt and text together: passed over; max_new_tokens would say how long a text is\n");
}

TEST_CASE("what is unknown, has no meaning or contradicts is refused") {
  CHECK(refused({{"tempreature", 1}, {"beam", 2}}) ==
        "the file f has fields that aren't known here: beam, tempreature; texts that are written without them might be "
        "others");
  CHECK(refused({{"num_beams", 4}}) == "the file f: num_beams is 4, and has to be 1: texts are chosen without it");
  CHECK(refused({{"num_beams", 1}, {"guidance_scale", 1.0}, {"remove_invalid_values", false}}) == "nothing");
  CHECK(refused({{"do_sample", true}, {"temperature", 0}}) ==
        "the file f: temperature is 0, and has to be above 0 where do_sample is true");
  CHECK(refused({{"do_sample", 1}}) == "the file f: do_sample is 1, and has to be true or false");
  CHECK(refused({{"do_sample", true}, {"top_k", -1}}) ==
        "the file f: top_k is -1, and has to be 0 (off) or more, and a number of 32 bits");
  CHECK(refused({{"do_sample", true}, {"top_k", 2147483648}}).find("top_k is 2147483648") != std::string::npos);
  CHECK(refused({{"do_sample", true}, {"top_p", 0}}) ==
        "the file f: top_p is 0, and has to be above 0 and at most 1 (off)");
  CHECK(refused({{"do_sample", true}, {"min_p", 2}}) == "the file f: min_p is 2, and has to be 0 (off) to 1");
  CHECK(refused({{"repetition_penalty", 0}}) ==
        "the file f: repetition_penalty is 0, and has to be above 0, and 1 turns it off");
  CHECK(refused({{"max_new_tokens", -1}}) == "the file f: max_new_tokens is -1, and has to be 0 or more");
  for (const nlohmann::json& end :
       {nlohmann::json(-1), nlohmann::json("</s>"), nlohmann::json{2, 2147483648}, nlohmann::json(1.5)})
    CHECK(refused({{"eos_token_id", end}}) ==
          "the file f: eos_token_id is " + end.dump() + ", and has to be a token's number, or a list of them");
  CHECK(refused({{"stop_strings", {"a", ""}}}) ==
        "the file f: stop_strings is [\"a\",\"\"], and has to be a text, or a list of texts, none of them empty");
  CHECK(refused(nlohmann::json::array()) == "the file f is no object of JSON, { ... }");
}

TEST_CASE("a folder without the file says nothing") {
  const weft_test::temporary_folder folder;
  CHECK(read_generation_config(folder.path(), {.tokens = 3}).sample.tokens == 3);
  std::ofstream(folder / "generation_config.json") << "{\"eos_token_id\": 1}";
  CHECK(read_generation_config(folder.path()).end_tokens.size() == 1);
  std::ofstream(folder / "generation_config.json") << "{";
  CHECK(said_by([&] { read_generation_config(folder.path()); }).find("generation_config.json isn't JSON") !=
        std::string::npos);
}
