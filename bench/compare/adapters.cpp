// Weft's side of adapters.py: fine-tunes a Llama of 134M parameters by LoRA on made-up tokens, one step for each line
// on stdin, and answers each with a line of JSON, as step.cpp does. Weights are random, and the same adapters train.
//   g++ -std=c++20 -O2 -Iinclude bench/compare/adapters.cpp -o adapters -pthread
//   yes | ./adapters bf16 1 256 4       fp32, bf16, int8 or nf4; threads, tokens of a sequence, sequences
#include <cstdio>
#include <cstdlib>
#include <string>

#include <weft/train/trainer.hpp>
#include <weft/weft.hpp>

#include "gated_tokens.hpp"

namespace {
using namespace weft;
using gate = compare::gated_tokens<cpu_backend>;

template <class Precision, class Form>
void train(int threads, std::int64_t seq, std::int64_t batch) {
  using S = strategy<mesh<dp>, replicated, Precision, Form>;
  constexpr std::int64_t vocab = 32000;
  const gate data(1, vocab);
  launch<S>(
      {},
      [&](context& ctx) {
        data.rank() = &ctx;
        llama<S> model(
            ctx,
            {.layers = 12, .hidden = 768, .heads = 12, .kv_heads = 12, .ffn = 2048, .vocab = vocab, .max_seq = seq});
        trainer training(ctx, model, adamw{.lr = 1e-3});
        if constexpr (requires { Form::stored_as; })
          training.store().load_parameters([&](const parameter_record& p) {
            std::optional<std::vector<float>> numbers;
            if (p.trained) return numbers;
            numbers.emplace(static_cast<std::size_t>(p.global.elements()));
            for (std::size_t i = 0; i < numbers->size(); ++i)
              (*numbers)[i] =
                  p.global.ndim == 1 ? 1.0f : 0.04f * (static_cast<float>(i * 2654435761u % 1024) / 1024 - 0.5f);
            return numbers;
          });
        const auto result = training.run(data, {.steps = 100000,
                                                .batch = batch,
                                                .seq = seq,
                                                .schedule = {.floor = 1},
                                                .validation_sequences = 0,
                                                .print = false});
        data.finish();
        if (ctx.is_first()) std::printf("{\"first_loss\": %.5f, \"loss\": %.5f}\n", result.first_loss, result.loss);
      },
      {.threads_per_rank = threads});
}
}  // namespace

int main(int arguments, char** argument) {
  gate::base_kb = compare::status("VmHWM:");
  const std::string form = arguments == 5 ? argument[1] : "";
  if (form != "fp32" && form != "bf16" && form != "int8" && form != "nf4") {
    std::fprintf(stderr, "adapters: wants fp32, bf16, int8 or nf4, then threads, tokens and sequences\n");
    return 2;
  }
  const int threads = std::atoi(argument[2]);
  const std::int64_t seq = std::atol(argument[3]), batch = std::atol(argument[4]);
  if (form == "fp32")
    train<fp32, lora<16>>(threads, seq, batch);
  else if (form == "bf16")
    train<bf16_mixed, lora<16>>(threads, seq, batch);
  else if (form == "int8")
    train<bf16_mixed, int8<lora<16>>>(threads, seq, batch);
  else
    train<bf16_mixed, nf4<lora<16>>>(threads, seq, batch);
}
