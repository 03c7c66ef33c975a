// A few steps of a small model on any backend, and all that came of them, for tests that hold one backend to another.
// Invariant: what is kept are bits, in the same order on every backend.
#pragma once

#include <bit>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace weft_test {

/// One rank's numbers.
struct trained {
  std::vector<std::uint64_t> bits;  // of losses, the last norm, and each parameter's gradient and weight
  std::vector<std::size_t> begins;  // where each of these arrays begins
  long waits = 0;                   // of the host, in `steps` steps
  long skipped = 0;
  std::size_t behind = 0;  // kernels that were to come at once

  std::vector<double> array(std::size_t i) const {
    std::vector<double> out;
    for (std::size_t k = begins[i]; k < (i + 1 < begins.size() ? begins[i + 1] : bits.size()); ++k)
      out.push_back(std::bit_cast<double>(bits[k]));
    return out;
  }
  friend bool operator==(const trained& a, const trained& b) { return a.bits == b.bits && a.skipped == b.skipped; }
};

constexpr int steps = 5;

inline std::shared_ptr<const weft::text_corpus> rhyme() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "one two three four five, once I caught a fish alive; ";
  return std::make_shared<const weft::text_corpus>("rhyme", text);
}

/// A few steps of a small model, each a run of its own so that its loss is seen.
template <class Model, class Config, class Optimizer>
std::vector<trained> train(const weft::degrees& mesh, const Config& config, const Optimizer& optimizer,
                           weft::launch_options options = {.check = false}) {
  using namespace weft;
  using S = typename Model::strategy;
  using backend = typename S::backend;
  std::vector<trained> all(static_cast<std::size_t>(mesh.product()));
  launch<S>(
      mesh,
      [&](context& ctx) {
        trained& out = all[static_cast<std::size_t>(ctx.rank().here())];
        Model model(ctx, config);
        trainer t(ctx, model, optimizer);
        auto& queue = ctx.queue<backend>();
        const text_dataset data(ctx, rhyme());
        const auto note = [&](double number) { out.bits.push_back(std::bit_cast<std::uint64_t>(number)); };
        queue.synchronize();
        const auto count = [&](long sign) {
          if constexpr (requires { queue.waits(), queue.most(); })
            out.waits += sign * queue.waits(), out.behind = queue.most();
        };
        count(-1);
        out.begins.push_back(0);
        for (int i = 0; i < steps; ++i) {
          const training_result r = t.run(data, {.steps = 1,
                                                 .batch = 8,
                                                 .micro_batches = 2,
                                                 .schedule = {.floor = 1},
                                                 .clip_norm = i % 2 ? 0.5 : 0,
                                                 .validation_sequences = 0,
                                                 .print = false});
          note(r.loss);
          out.skipped += r.skipped;
        }
        count(1);
        out.begins.push_back(out.bits.size());
        note(t.store().gradient_norm());
        t.store().each_parameter([&](const parameter_record&, auto gradient, auto weight) {
          const auto read = [&](const auto& numbers) {
            out.begins.push_back(out.bits.size());
            for (const auto x : numbers) note(static_cast<double>(x));
          };
          read(gradient), read(weight);
        });
      },
      options);
  return all;
}

struct fp16_from_above : weft::fp16_mixed {  // overflows at first
  static constexpr double initial_loss_scale = 0x1p17;
};
const weft::llama_config small_llama{
    .layers = 4, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 56, .vocab = 256, .max_seq = 24};
const weft::gpt2_config small_gpt2{.layers = 4, .hidden = 32, .heads = 4, .vocab = 256, .max_seq = 24, .dropout = 0.1};

}  // namespace weft_test
