// Settings as JSON, written and read by one list of keys. Invariant: what is written is read back to the same settings,
// and a key that isn't on the list is never passed over.
#include <concepts>
#include <cstdlib>
#include <limits>
#include <utility>

#include <weft/io/json.hpp>
#include <weft/io/read_json.hpp>

#include "settings.hpp"

namespace train_llama {
namespace {

/// f(key, setting) for everything that a run can be told, but for its strategy's slots.
template <class Settings, class F>
void each_setting(Settings& s, F&& f) {
  f("dp", s.degrees.dp), f("tp", s.degrees.tp), f("pp", s.degrees.pp), f("threads", s.threads), f("seed", s.seed);
  f("layers", s.model.layers), f("hidden", s.model.hidden), f("heads", s.model.heads);
  f("kv_heads", s.model.kv_heads), f("head_dim", s.model.head_dim), f("ffn", s.model.ffn);
  f("tied", s.model.tied_embeddings);
  f("qkv_bias", s.model.qkv_bias);
  f("steps", s.plan.steps), f("batch", s.plan.batch), f("micro_batches", s.plan.micro_batches);
  f("seq", s.model.max_seq), f("lr", s.optimizer.lr), f("warmup", s.plan.schedule.warmup);
  f("lr_floor", s.plan.schedule.floor), f("beta1", s.optimizer.beta1), f("beta2", s.optimizer.beta2);
  f("eps", s.optimizer.eps), f("weight_decay", s.optimizer.weight_decay), f("clip", s.plan.clip_norm);
  f("save_every", s.save_every), f("keep", s.keep), f("keep_every", s.keep_every);
  f("data", s.data), f("out", s.out), f("held_out", s.held_out), f("validate_every", s.plan.validate_every);
  f("validation_sequences", s.plan.validation_sequences), f("log_every", s.plan.print_every);
  f("watch_every", s.plan.watch.every), f("on_non_finite", s.on_non_finite);
  f("spike", s.plan.watch.spike_deviations), f("prompt", s.prompt), f("sample_tokens", s.sample.tokens);
  f("temperature", s.sample.temperature), f("top_k", s.sample.top_k), f("top_p", s.sample.top_p);
  f("repetition_penalty", s.sample.repetition_penalty);
}

/// The fewest digits, 9 at least, that are read back as x.
std::string exact(double x) {
  char digits[40];
  for (int n = 9; n <= 17; ++n) {
    std::snprintf(digits, sizeof digits, "%.*g", n, x);
    if (std::strtod(digits, nullptr) == x) break;
  }
  return digits;
}

void set(std::string& to, const nlohmann::json& value, const std::string& where) {
  weft::require(value.is_string(), where, " is ", value.dump(), "; it takes a text in quotes");
  to = value.get<std::string>();
}
void set(bool& to, const nlohmann::json& value, const std::string& where) {
  weft::require(value.is_boolean(), where, " is ", value.dump(), "; it takes true or false");
  to = value.get<bool>();
}
void set(double& to, const nlohmann::json& value, const std::string& where) {
  weft::require(value.is_number(), where, " is ", value.dump(), "; it takes a number");
  to = value.get<double>();
}
template <std::integral T>
void set(T& to, const nlohmann::json& value, const std::string& where) {
  weft::require(value.is_number_integer(), where, " is ", value.dump(), "; it takes a whole number, without a point");
  const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                               : std::in_range<T>(value.get<std::int64_t>());
  weft::require(fits, where, " is ", value.dump(), "; it is from ", std::numeric_limits<T>::min(), " to ",
                std::numeric_limits<T>::max());
  to = value.get<T>();
}

}  // namespace

std::string to_json(const settings& s) {
  weft::json_writer w(1);
  w.begin_object().member("strategy", name_of(s));
  each_setting(s, [&]<class T>(const char* key, const T& setting) {
    if constexpr (std::is_same_v<T, double>)
      w.key(key).raw(exact(setting));
    else
      w.member(key, setting);
  });
  w.key("derived").begin_object().member("backend", this_process().backend);
  w.member("sharding", s.sharding).member("precision", s.precision);
  w.member("checkpointing", s.checkpointing).member("sequence_parallel", s.sequence_parallel);
  w.member("ranks", s.ranks).member("vocab", s.model.vocab);
  w.member("parameters", s.model.parameters()).end_object();
  return w.end_object().text() + '\n';
}

void read_config(settings& s, const std::string& path) {
  const std::string file = "the file " + path;
  const nlohmann::json all = weft::parse_json(weft::read_file(path, 1 << 24), path);
  weft::require(all.is_object(), file, " is no JSON object; train_llama --print-config writes one");

  given_strategy given;
  std::vector<std::string> known{"derived"};
  const auto take = [&](const char* key, auto& setting) {
    known.emplace_back(key);
    if (const auto at = all.find(key); at != all.end()) set(setting, *at, file + ": " + key);
  };
  take("strategy", given.name);
  take("sharding", given.sharding), take("precision", given.precision), take("checkpointing", given.checkpointing);
  bool sequence_parallel = false;
  take("sequence_parallel", sequence_parallel);
  if (all.contains("sequence_parallel")) given.sequence_parallel = sequence_parallel;
  each_setting(s, take);
  for (const auto& member : all.items()) check_name(("setting in " + file).c_str(), member.key(), known);
  set_strategy(s, given, file + ": ");
}

}  // namespace train_llama
