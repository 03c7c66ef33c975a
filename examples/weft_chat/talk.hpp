// A conversation with a model of a folder, line by line. Invariant: what is printed is the model's text alone, as it
// grows; all else goes to stderr.
#pragma once

#include <cstdio>
#include <iostream>
#include <thread>

#include <weft/backend/cpu/team.hpp>
#include <weft/io/pretrained.hpp>
#include <weft/train/generate_text.hpp>
#include <weft/weft.hpp>

#include "../shared/tokenizer_folder.hpp"
#include "conversation.hpp"
#include "settings.hpp"

namespace weft_chat {

template <class Model>
void answer_lines(Model& model, const settings& s, std::atomic<bool>& stop) {
  const examples::tokenizer_folder of(s.folder + "/tokenizer.json");
  const weft::tokenizer& words = of.words();
  const std::int64_t vocab = model.config().vocab, limit = model.config().max_seq;
  weft::require(words.end_of_ids() <= vocab, "the tokenizer of ", s.folder, " has tokens up to ",
                words.end_of_ids() - 1, ", and the model knows those below ", vocab, ": they aren't of one model");
  for (const std::int32_t end : s.end_tokens)
    weft::require(end < vocab, "the file ", s.folder, "/generation_config.json has the eos_token_id ", end,
                  ", and the model knows those below ", vocab, ": they aren't of one model");
  conversation talk(of, s.chat == "none" ? s.chat : of.chat_format(s.chat), s.system, s.end_tokens, limit);
  weft::sampling sample = s.sample;
  sample.end_token = talk.end_of_answer();
  sample.ends = [&](std::span<const std::int32_t> written) { return talk.words().is_end(written.back()); };
  sample.stop = &stop;

  std::fprintf(stderr,
               "weft-chat: a line is a message, /new begins again; Ctrl-C ends an answer, Ctrl-D the program\n");
  const auto prompt_sign = [&] { std::fprintf(stderr, "> "); };
  std::string line, prompt;
  weft::kept_text kept;  // of the chat, what the model has read
  for (prompt_sign(); !stop && std::getline(std::cin, line); prompt_sign()) {
    if (line.empty()) continue;
    if (line == "/new") {
      talk.begin_again();
      continue;
    }
    if (const std::size_t left_out = talk.ask(line, sample.tokens, prompt); left_out > 0)
      std::fprintf(stderr, "weft-chat: the model reads %lld tokens at once: the %zu oldest messages are left out\n",
                   static_cast<long long>(limit), left_out);
    const auto print = [](std::string_view piece) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    };
    const std::string answer = weft::generate_text(model, talk.words(), prompt, sample, print, &kept);
    std::printf("\n");
    std::fflush(stdout);
    talk.answered(answer);
    ++sample.seed;
    stop = false;
  }
  std::fprintf(stderr, "\n");
}

template <template <class> class Model, class Precision, class Form>
void talk_with(const settings& s, std::atomic<bool>& stop) {
  using S = weft::strategy<weft::mesh<weft::dp>, Precision, Form>;
  const unsigned cores = std::thread::hardware_concurrency();
  weft::launch<S>({},
                  [&](weft::context& ctx) {
                    if constexpr (std::is_same_v<Model<S>, weft::llama<S>>) {
                      auto p = weft::llama_from_pretrained<S>(ctx, s.folder);
                      answer_lines(p.model, s, stop);
                    } else {
                      auto p = weft::gpt2_from_pretrained<S>(ctx, s.folder);
                      answer_lines(p.model, s, stop);
                    }
                  },
                  {.threads_per_rank = s.threads > 0 ? s.threads : static_cast<int>(cores > 0 ? cores : 1)});
}

template <template <class> class Model>
void talk_to(const settings& s, std::atomic<bool>& stop) {
  using namespace weft;
  if (s.weights == "fp32") return talk_with<Model, fp32, dense>(s, stop);
  if (s.weights == "bf16") return talk_with<Model, bf16_mixed, dense>(s, stop);
  if (s.weights == "int8") return talk_with<Model, bf16_mixed, int8<>>(s, stop);
  talk_with<Model, bf16_mixed, nf4<>>(s, stop);
}

}  // namespace weft_chat
