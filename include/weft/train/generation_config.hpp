// How a folder's generation_config.json says that texts are chosen. Invariant: a field of it is read, known to be of no
// consequence, said to be passed over, or an error; what it doesn't say is what transformers takes.
#pragma once

#include <filesystem>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <weft/io/json_fields.hpp>
#include <weft/train/sampling.hpp>

namespace weft {

/// Settings of texts, and the tokens of which each ends one.
struct generation_config {
  sampling sample;
  std::vector<std::int32_t> end_tokens = {};
  std::vector<std::string> passed_over = {};  // fields that ask for something, and have no effect
};

namespace detail {

inline std::vector<std::int32_t> end_tokens_in(json_fields& f) {
  const nlohmann::json* const said = f.find("eos_token_id");
  std::vector<std::int32_t> out;
  if (!said) return out;
  for (const nlohmann::json& one : said->is_array() ? *said : nlohmann::json::array({*said})) {
    const bool fits = one.is_number_integer() && one >= 0 && one <= std::numeric_limits<std::int32_t>::max();
    if (!fits) f.fail("eos_token_id", *said, "a token's number, or a list of them");
    out.push_back(one.get<std::int32_t>());
  }
  return out;
}

inline std::vector<std::string> stop_strings_in(json_fields& f) {
  const nlohmann::json* const said = f.find("stop_strings");
  std::vector<std::string> out;
  if (!said) return out;
  for (const nlohmann::json& one : said->is_array() ? *said : nlohmann::json::array({*said})) {
    if (!one.is_string() || one.get<std::string>().empty())
      f.fail("stop_strings", *said, "a text, or a list of texts, none of them empty");
    out.push_back(one.get<std::string>());
  }
  return out;
}

/// A number of the file; where it doesn't fit, the error says what it has to be.
template <class Fits>
double number_that(json_fields& f, const char* name, double otherwise, Fits fits, const char* wanted) {
  const double x = f.number(name, otherwise);
  if (!fits(x)) f.fail(name, *f.find(name), wanted);
  return x;
}

inline void read_draws(json_fields& f, generation_config& c) {
  sampling& s = c.sample;
  const bool sampled = f.flag("do_sample", false);
  if (!sampled) {  // nobody looks at the others, as in transformers
    const auto pass_over = [&](const char* name, double unsaid, double off) {
      if (const double x = f.number(name, off); x != unsaid && x != off) c.passed_over.push_back(name);
    };
    pass_over("temperature", 1, 0), pass_over("top_k", 50, 0), pass_over("top_p", 1, 1), pass_over("min_p", 0, 0);
    if (f.has("do_sample")) s.temperature = 0;
    return;
  }
  s.temperature = number_that(
      f, "temperature", 1, [](double x) { return x > 0; }, "above 0 where do_sample is true");
  const std::int64_t k = f.whole_number("top_k", 50);
  if (k < 0 || k > std::numeric_limits<int>::max()) f.fail("top_k", k, "0 (off) or more, and a number of 32 bits");
  s.top_k = static_cast<int>(k);
  s.top_p = number_that(
      f, "top_p", 1, [](double x) { return x > 0 && x <= 1; }, "above 0 and at most 1 (off)");
  s.min_p = number_that(
      f, "min_p", 0, [](double x) { return x >= 0 && x <= 1; }, "0 (off) to 1");
}

/// A line on stderr, once in a process: a file is read by every rank of it.
inline void say_once(const std::string& line) {
  static std::mutex lock;
  static std::set<std::string> said;
  const std::lock_guard guard(lock);
  if (said.insert(line).second) std::fprintf(stderr, "weft: %s\n", line.c_str());
}

}  // namespace detail

/// What generation_config.json says, and `otherwise` where it says nothing. With do_sample true what it leaves out of
/// temperature, top_k, top_p and min_p is 1, 50, 1 and 0, as in transformers; with false the likeliest token is taken;
/// without it `otherwise` says how tokens are drawn. repetition_penalty looks at the whole text. Passed over are draws
/// whose do_sample isn't true, as in transformers, and max_length where there is no max_new_tokens: a text's length is
/// that of what is written. Throws weft::file_error naming a field that isn't known here, has no meaning, or asks for
/// what there isn't: beams, penalties and filters beyond those of `sampling`.
inline generation_config parse_generation_config(const nlohmann::json& said, const std::string& path,
                                                 const sampling& otherwise = {}) {
  json_fields f(said, path);
  generation_config c{otherwise};
  c.end_tokens = detail::end_tokens_in(f);
  if (f.has("stop_strings")) c.sample.stop_strings = detail::stop_strings_in(f);
  detail::read_draws(f, c);
  c.sample.tokens = f.whole_number("max_new_tokens", otherwise.tokens);
  if (c.sample.tokens < 0) f.fail("max_new_tokens", c.sample.tokens, "0 or more");
  if (f.has("max_length") && !f.has("max_new_tokens")) c.passed_over.push_back("max_length");
  if (f.has("repetition_penalty")) {
    c.sample.repetition_penalty = detail::number_that(
        f, "repetition_penalty", 1, [](double x) { return x > 0; }, "above 0, and 1 turns it off");
    c.sample.penalty_window = std::numeric_limits<std::int64_t>::max();
  }
  // What would choose other tokens, and is off.
  for (const auto& [name, off] : {std::pair<const char*, nlohmann::json>{"num_beams", 1},
                                  {"num_beam_groups", 1},
                                  {"num_return_sequences", 1},
                                  {"no_repeat_ngram_size", 0},
                                  {"encoder_no_repeat_ngram_size", 0},
                                  {"encoder_repetition_penalty", 1},
                                  {"diversity_penalty", 0},
                                  {"penalty_alpha", 0},
                                  {"typical_p", 1},
                                  {"epsilon_cutoff", 0},
                                  {"eta_cutoff", 0},
                                  {"guidance_scale", 1},
                                  {"min_length", 0},
                                  {"min_new_tokens", 0},
                                  {"remove_invalid_values", false},
                                  {"token_healing", false}})
    if (const nlohmann::json* const value = f.find(name); value && *value != off)
      f.fail(name, *value, off.dump() + ": texts are chosen without it");
  f.ignore({"_commit_hash", "_from_model_config", "bos_token_id", "cache_implementation", "early_stopping",
            "length_penalty", "output_attentions", "output_hidden_states", "output_logits", "output_scores",
            "pad_token_id", "renormalize_logits", "return_dict_in_generate", "transformers_version", "use_cache"});
  f.finish("texts that are written without them might be others");
  return c;
}

/// Of the folder's generation_config.json; `otherwise` where there is none. What is passed over is said on stderr, once
/// in a program.
inline generation_config read_generation_config(const std::string& folder, const sampling& otherwise = {}) {
  const std::string path = folder + "/generation_config.json";
  if (!std::filesystem::exists(path)) return {otherwise};
  generation_config c = parse_generation_config(read_json(path), path, otherwise);
  std::string draws;
  for (const std::string& name : c.passed_over)
    if (name != "max_length") draws += (draws.empty() ? "" : ", ") + name;
  if (!draws.empty())
    detail::say_once("the file " + path + " says " + draws +
                     ", and do_sample isn't true: passed over, as by transformers");
  if (!c.passed_over.empty() && c.passed_over.back() == "max_length")
    detail::say_once("the file " + path +
                     " says max_length, of prompt and text together: passed over; max_new_tokens "
                     "would say how long a text is");
  return c;
}

}  // namespace weft
