// weft-chat: a conversation with a model of a Hugging Face folder, on this machine's processor. Errors: one sentence on
// stderr; exit code 2 for what can't be read on the command line, 1 for the rest.
#include <csignal>
#include <cstdio>

#include <CLI/CLI.hpp>

#include <weft/io/config_beside.hpp>
#include <weft/io/pruned_fields.hpp>
#include <weft/io/read_json.hpp>
#include <weft/train/generation_config.hpp>

#include "shared/command_line.hpp"
#include "weft_chat/settings.hpp"

#ifndef WEFT_VERSION  // compiled without CMake
#define WEFT_VERSION "0"
#endif

namespace {

std::atomic<bool> stop = false;

int complain(const std::string& sentence, int code) {
  std::fprintf(stderr, "weft-chat: %s\n", sentence.c_str());
  return code;
}

bool is_gpt2(const std::string& folder) {
  const nlohmann::json config = weft::read_config_json(folder);
  if (!config.is_object() || !config.contains("model_type") || !config.at("model_type").is_string()) return false;
  return weft::unpruned_family(config.at("model_type").get<std::string>()) == "gpt2";
}

}  // namespace

int main(int argc, char** argv) {
  weft_chat::settings s;
  s.sample.tokens = 512;
  const weft::sampling defaults = s.sample;
  CLI::App app(
      "Answers lines by a model of a folder: config.json, safetensors files and tokenizer.json. What "
      "generation_config.json there says of answers holds in place of the values in brackets.",
      "weft-chat");
  app.get_formatter()->column_width(30);
  app.option_defaults()->always_capture_default();
  app.add_option("FOLDER", s.folder, "the model's")->required();
  app.add_option("--weights", s.weights, "fp32, bf16, int8, nf4: the type to compute in, or bf16 with few bits stored");
  app.add_option("--chat", s.chat,
                 "chatml, qwen2, qwen2.5, qwen3, llama3, llama2, mistral; auto: by the chat template, or tokens; none: "
                 "continue lines");
  app.add_option("--system", s.system, "message before all others");
  app.add_option("--tokens", s.sample.tokens, "of an answer, at most");
  app.add_option("--temperature", s.sample.temperature, "0: always the likeliest token");
  app.add_option("--top-k", s.sample.top_k, "choose among the k likeliest; 0: all");
  app.add_option("--top-p", s.sample.top_p, "choose among the likeliest whose probabilities reach p");
  app.add_option("--min-p", s.sample.min_p, "choose among those p times as likely as the likeliest");
  app.add_option("--repetition-penalty", s.sample.repetition_penalty, "lowers what occurs already; 1: off");
  app.add_option("--seed", s.sample.seed, "of the draws");
  app.add_option("--threads", s.threads, "that compute; 0: as many as cores");
  app.set_version_flag("--version", "weft-chat of Weft " WEFT_VERSION, "print the version, and stop");
  app.get_option("--weights")->check(CLI::IsMember({"fp32", "bf16", "int8", "nf4"}));
  app.get_option("--chat")->check(
      CLI::IsMember({"auto", "none", "chatml", "qwen2", "qwen2.5", "qwen3", "llama3", "llama2", "mistral"}));
  app.get_option("--threads")->check(CLI::Range(0, 1024));
  if (const std::optional<int> ends = examples::parse(
          app, argc, argv, [](const std::string& sentence) { complain(sentence, 2); }, "--system"))
    return *ends;
  struct sigaction asked {};
  asked.sa_handler = [](int) { stop = true; };  // and what waits for a line doesn't go on waiting
  ::sigaction(SIGINT, &asked, nullptr);
  try {
    const weft::generation_config said = weft::read_generation_config(s.folder, defaults);
    s.sample = said.sample, s.end_tokens = said.end_tokens;
    app.parse(examples::words_of(argc, argv));  // again: what is given goes before
    weft::check(s.sample);
    is_gpt2(s.folder) ? weft_chat::talk_to_gpt2(s, stop) : weft_chat::talk_to_llama(s, stop);
  } catch (const std::exception& e) {
    return complain(e.what(), 1);
  }
}
