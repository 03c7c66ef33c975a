// Weft's side of bench/compare: trains a Llama or a GPT-2 on made-up tokens, one step for each line on stdin, and
// answers each with a line of JSON. Weights, tokens and optimizer are those of torch_step.py. bench/cuda/step.cu is the
// same program for a GPU.
//   g++ -std=c++20 -O2 -Iinclude bench/compare/step.cpp -o step -pthread && yes | ./step fp32 threads 1 dp 1 layers 4
//   ...
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <weft/train/trainer.hpp>
#if defined(__CUDACC__)
#include <weft/weft.cuh>
#else
#include <weft/weft.hpp>
#endif

#include "gated_tokens.hpp"

namespace {

using namespace weft;
#if defined(__CUDACC__)
using backend = cuda_backend;
#else
using backend = cpu_backend;
#endif

template <class Model, class Config>
void train(std::map<std::string, long> of, const Config& config) {
  const int dp = static_cast<int>(of["dp"]);
  const compare::gated_tokens<backend> data(dp, of["vocab"]);
  launch<typename Model::strategy>(
      {.dp = dp},
      [&](context& ctx) {
        data.rank() = &ctx;
        Model model(ctx, config);
        trainer training(ctx, model, {.lr = 1e-3});
        if (ctx.is_first()) std::printf("{\"parameters\": %ld}\n", static_cast<long>(model.config().parameters()));
        const auto result = training.run(data, {.steps = of["steps"],
                                                .batch = of["batch"],
                                                .schedule = {.floor = 1},
                                                .validation_sequences = 0,
                                                .print = false});
        data.finish();
        if (ctx.is_first()) std::printf("{\"first_loss\": %.5f, \"loss\": %.5f}\n", result.first_loss, result.loss);
      },
      {.threads_per_rank = static_cast<int>(of["threads"])});
}

template <class Precision>
void train_either(std::map<std::string, long> of) {
  using S = strategy<mesh<dp, tp>, Precision, backend>;
  if (of["gpt2"] != 0)
    train<gpt2<S>>(of, gpt2_config{.layers = of["layers"],
                                   .hidden = of["hidden"],
                                   .heads = of["heads"],
                                   .ffn = of["ffn"],
                                   .vocab = of["vocab"],
                                   .max_seq = of["seq"],
                                   .dropout = 0});
  else
    train<llama<S>>(of, llama_config{.layers = of["layers"],
                                     .hidden = of["hidden"],
                                     .heads = of["heads"],
                                     .kv_heads = of["kv_heads"],
                                     .ffn = of["ffn"],
                                     .vocab = of["vocab"],
                                     .max_seq = of["seq"]});
}

}  // namespace

int main(int arguments, char** argument) {
  if (backend::host_memory) compare::gated_tokens<backend>::base_kb = compare::status("VmHWM:");
  const std::string precision = arguments > 1 ? argument[1] : "";
  std::map<std::string, long> of = {{"threads", 1}, {"dp", 1},       {"layers", 4}, {"hidden", 192},
                                    {"heads", 6},   {"kv_heads", 2}, {"ffn", 512},  {"vocab", 256},
                                    {"seq", 128},   {"batch", 16},   {"steps", 10}, {"gpt2", 0}};
  bool known = arguments % 2 == 0 && (precision == "fp32" || precision == "bf16");
  for (int i = 2; known && i + 1 < arguments; i += 2) {
    known = of.count(argument[i]) == 1;
    of[argument[i]] = std::atol(argument[i + 1]);
  }
  if (!known) {
    std::fprintf(stderr, "step: wants fp32 or bf16, then pairs of a name and a number:");
    for (const auto& [name, number] : of) std::fprintf(stderr, " %s %ld", name.c_str(), number);
    std::fprintf(stderr, "\n");
    return 2;
  }
  try {
    if (precision == "fp32")
      train_either<fp32>(of);
    else
      train_either<bf16_mixed>(of);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "step: %s\n", e.what());
    return 1;
  }
}
