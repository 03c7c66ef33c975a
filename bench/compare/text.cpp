// Weft's side of text.py: continues a prompt by a GPT-2 with random weights, once for each line on stdin, and answers
// with the seconds that it took.
//   g++ -std=c++20 -O2 -Iinclude bench/compare/text.cpp -o text -pthread
//   yes | ./text fp32 1 128 64 1       precision, threads, tokens of the prompt, tokens written, texts at once
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using clock = std::chrono::steady_clock;

template <class Precision>
void write(int threads, std::int64_t prompt, std::int64_t tokens, std::int64_t texts) {
  using S = strategy<mesh<dp>, Precision>;
  launch<S>(
      {},
      [&](context& ctx) {
        gpt2<S> model(ctx, {.layers = 12, .hidden = 768, .heads = 12, .vocab = 50257, .max_seq = 1024, .dropout = 0});
        model.registry().freeze([](const parameter_record&) { return true; });
        parameter_store<cpu_backend, Precision> store(ctx, model.registry(), config_of<replicated>());
        model.use(store);
        std::vector<std::vector<std::int32_t>> prompts(static_cast<std::size_t>(texts));
        for (std::int64_t i = 0; i < prompt * texts; ++i)
          prompts[static_cast<std::size_t>(i / prompt)].push_back(static_cast<std::int32_t>(i * 7919 % 50257));
        std::printf("ready\n");
        std::fflush(stdout);
        while (std::getchar() != EOF) {
          const auto begin = clock::now();
          const auto all = generate_tokens(model, prompts, {.tokens = tokens, .temperature = 0}, {.at_once = texts});
          const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
          require(static_cast<std::int64_t>(all.back().size()) == tokens, "a text is short");
          std::printf("%.6f\n", seconds);
          std::fflush(stdout);
        }
        model.release();
      },
      {.threads_per_rank = threads});
}
}  // namespace

int main(int arguments, char** argument) {
  if (arguments != 6) return std::fprintf(stderr, "text: wants precision, threads, prompt, tokens, texts\n"), 2;
  const int threads = std::atoi(argument[2]);
  const std::int64_t prompt = std::atol(argument[3]), tokens = std::atol(argument[4]), texts = std::atol(argument[5]);
  if (std::string(argument[1]) == "fp32")
    write<fp32>(threads, prompt, tokens, texts);
  else
    write<bf16_mixed>(threads, prompt, tokens, texts);
}
