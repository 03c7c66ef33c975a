// weft-tokenize: texts and chats to tokens in files, by a model's tokenizer. What it writes a token_dataset reads
// (docs/data.md). Errors: one sentence on stderr; exit code 2 for what can't be read on the command line, 130 when it
// was asked to stop, 1 for the rest; then nothing is written.
#include <csignal>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "shared/command_line.hpp"
#include "weft_tokenize/settings.hpp"

#ifndef WEFT_VERSION  // compiled without CMake
#define WEFT_VERSION "0"
#endif

namespace {
std::atomic<bool> stop = false;
}

int main(int argc, char** argv) {
  const auto complain = [](const std::string& sentence) {
    std::fprintf(stderr, "weft-tokenize: %s\n", sentence.c_str());
  };
  weft_tokenize::settings s;
  CLI::App app(
      "Writes the tokens of texts and chats: OUT.bin and OUT.idx, and for chats OUT.loss.bin and OUT.loss.idx.",
      "weft-tokenize");
  app.get_formatter()->column_width(30);
  app.option_defaults()->always_capture_default();
  app.add_option("FILE", s.files, "FILE.jsonl, an object with text or a chat a line; or other files, which are text")
      ->required();
  app.add_option("--tokenizer", s.tokenizer, "folder with tokenizer.json, or such a file")->required();
  app.add_option("--out", s.out, "what the output's names begin with")->required();
  app.add_option("--field", s.field, "the text's, in an object");
  app.add_option("--chat", s.chat,
                 "chatml, qwen2, qwen2.5, qwen3, llama3, llama2, mistral; auto: by the chat template, or tokens");
  app.add_option("--end", s.end, "token behind each document [the tokenizer's; none behind a chat]");
  app.add_flag("--no-end", s.no_end, "no token behind a document");
  app.add_option("--format", s.format, "megatron or llmc");
  app.add_option("--read", s.read, "json or text; auto: by the file's name");
  app.add_flag("--lines", s.lines, "each line of a text is a document");
  app.add_option("--separator", s.separator, "line that stands between a text's documents; may be empty");
  app.add_flag("--skip-bad-lines", s.skip_bad_lines,
               "leave out lines that are no document, say which the first are and how many");
  app.add_option("--threads", s.threads, "that encode; 0: as many as cores");
  app.set_version_flag("--version", "weft-tokenize of Weft " WEFT_VERSION, "print the version, and stop");
  app.get_option("--chat")->check(
      CLI::IsMember({"auto", "chatml", "qwen2", "qwen2.5", "qwen3", "llama3", "llama2", "mistral"}));
  app.get_option("--format")->check(CLI::IsMember({"megatron", "llmc"}));
  app.get_option("--read")->check(CLI::IsMember({"auto", "json", "text"}));
  app.get_option("--threads")->check(CLI::Range(0, 1024));
  app.get_option("--no-end")->excludes("--end");
  app.get_option("--lines")->excludes("--separator");
  if (const std::optional<int> ends = examples::parse(app, argc, argv, complain, "--separator")) return *ends;
  s.field_given = app.count("--field") > 0, s.has_separator = app.count("--separator") > 0;
  struct sigaction asked {};
  asked.sa_handler = [](int) { stop = true; };  // and what waits for input doesn't go on waiting
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;  // as nohup wants it
    ::sigaction(signal, &asked, nullptr);
  }
  try {
    weft_tokenize::run(s, stop);
  } catch (const std::exception& e) {
    complain(stop ? "it was asked to stop, and wrote nothing" : e.what());
    return stop ? 130 : 1;
  }
}
