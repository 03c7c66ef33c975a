// Weft's side of bench/compare: trains a Llama or a GPT-2 on made-up tokens, one step for each line on stdin, and
// answers each with a line of JSON. Weights, tokens and optimizer are those of torch_step.py. bench/cuda/step.cu is the
// same program for a GPU.
//   g++ -std=c++20 -O2 -Iinclude bench/compare/step.cpp -o step -pthread && yes | ./step fp32 threads 1 dp 1 layers 4
//   ...
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include <weft/train/trainer.hpp>
#if defined(__CUDACC__)
#include <weft/weft.cuh>
#else
#include <weft/weft.hpp>
#endif

namespace {

using namespace weft;
#if defined(__CUDACC__)
using backend = cuda_backend;
#else
using backend = cpu_backend;
#endif
using clock = std::chrono::steady_clock;

/// Kibibytes that the kernel counts under a name in /proc/self/status.
long status(const char* name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (word == name) {
      long kb = 0;
      file >> kb;
      return kb;
    }
  return 0;
}

/// The most that the process has held; where tensors live on a device, what its arenas and kernels have of that.
long peak_kb(context& ctx) {
  if constexpr (backend::host_memory) return status("VmHWM:");
  const memory_ledger &own = ctx.memory.ledger(), &state = ctx.optimizer_ledger();
  return static_cast<long>((own.reserved + (&state == &own ? 0 : state.reserved) + own.scratch.value_or(0)) / 1024);
}

/// Made-up batches, and the gate: no rank passes to its next step before a line has come in. What lies between two
/// gates is a step, with all that the trainer does in it.
class gated_tokens {
 public:
  gated_tokens(int ranks, std::int64_t vocab) : vocab_(vocab), arrived_(ranks), open_(ranks) {}

  template <any_tensor Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t, std::int64_t count, std::int64_t length) const {
    return rows<Ids>(step, count, length);
  }
  bool can_validate(std::int64_t) const { return false; }
  template <any_tensor Ids>
  token_batch<Ids> validation(std::int64_t, std::int64_t count, std::int64_t length) const {
    return rows<Ids>(0, count, length);
  }
  context*& rank() const {
    static thread_local context* mine = nullptr;
    return mine;
  }
  /// Ends the last step.
  void finish() const { wait(*rank(), false); }

 private:
  template <any_tensor Ids>
  token_batch<Ids> rows(std::int64_t step, std::int64_t count, std::int64_t length) const {
    wait(*rank(), true);
    const auto token = [&](std::int64_t i) { return (step * 31 + i * i * 5 + i * 3) % vocab_; };
    return {generate<Ids>(*rank(), {count, length}, token),
            generate<Ids>(*rank(), {count, length}, [&](std::int64_t i) { return token(i + 1); })};
  }
  void wait(context& ctx, bool more) const {
    arrived_.arrive_and_wait();
    if (ctx.is_first()) {
      if (running_) {
        const double seconds = std::chrono::duration<double>(clock::now() - begin_).count();
        std::printf("{\"seconds\": %.6f, \"peak_kb\": %ld}\n", seconds, peak_kb(ctx));
      } else {
        std::printf("{\"ready\": true, \"base_kb\": %ld}\n", base_kb);
      }
      std::fflush(stdout);
      if (more && std::getchar() == EOF) std::exit(0);
      running_ = true;
      begin_ = clock::now();
    }
    open_.arrive_and_wait();
  }

 public:
  static inline long base_kb = 0;

 private:
  std::int64_t vocab_;
  mutable std::barrier<> arrived_, open_;
  mutable bool running_ = false;
  mutable clock::time_point begin_;
};

template <class Model, class Config>
void train(std::map<std::string, long> of, const Config& config) {
  const int dp = static_cast<int>(of["dp"]);
  const gated_tokens data(dp, of["vocab"]);
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
  if (backend::host_memory) gated_tokens::base_kb = status("VmHWM:");
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
