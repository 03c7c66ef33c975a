// Training on a queue that runs behind its host, beside the same on the CPU's own. Invariant: what is compared are
// bits.
#pragma once

#include <bit>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "../backend/late_backend.hpp"

namespace weft_test {

/// One rank's numbers.
struct trained {
  std::vector<std::uint64_t> bits;  // of losses, norms, gradients and weights
  long waits = 0;                   // of the host, in `steps` steps
  long skipped = 0;
  std::size_t behind = 0;  // kernels that were to come at once
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
                           bool check = false) {
  using namespace weft;
  using S = typename Model::strategy;
  using backend = typename S::backend;
  std::vector<trained> all(static_cast<std::size_t>(mesh.product()));
  launch<S>(mesh,
            [&](context& ctx) {
              trained& out = all[static_cast<std::size_t>(ctx.rank().here())];
              Model model(ctx, config);
              trainer t(ctx, model, optimizer);
              auto& queue = ctx.queue<backend>();
              const text_dataset data(ctx, rhyme());
              const auto note = [&](double number) { out.bits.push_back(std::bit_cast<std::uint64_t>(number)); };
              queue.synchronize();
              const auto count = [&](long sign) {
                if constexpr (backend::queue::runs_behind) out.waits += sign * queue.waits(), out.behind = queue.most();
              };
              count(-1);
              std::vector<double> losses;
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
              note(t.store().gradient_norm());
              t.store().each_parameter([&](const parameter_record&, auto gradient, auto weight) {
                const auto read = [&]<class T>(const local_share<T>& from) {
                  std::vector<T> numbers(static_cast<std::size_t>(from.size()));
                  backend::download(queue, from.data(), numbers.data(), from.size() * std::int64_t{sizeof(T)});
                  for (const T x : numbers) note(static_cast<double>(x));
                };
                read(gradient), read(weight);
              });
            },
            {.check = check});
  return all;
}

/// The same bits on every rank, and no wait of the host but the one that reads what became of a step.
template <template <class> class Model, class... Policies, class Config, class Optimizer = weft::adamw>
void check_late(const weft::degrees& mesh, const Config& config, const Optimizer& optimizer = {}, int skipped = 0) {
  const auto now = train<Model<weft::strategy<Policies...>>>(mesh, config, optimizer);
  const auto late = train<Model<weft::strategy<Policies..., late_backend>>>(mesh, config, optimizer);
  for (std::size_t rank = 0; rank < now.size(); ++rank) {
    CAPTURE(rank);
    REQUIRE(now[rank].bits.size() > 1000);
    CHECK((now[rank] == late[rank]));
    CHECK(now[rank].skipped == skipped);
    CHECK(late[rank].waits == steps);
    CHECK(late[rank].behind > 300);  // a step as a whole
  }
}

struct fp16_from_above : weft::fp16_mixed {  // overflows at first
  static constexpr double initial_loss_scale = 0x1p17;
};
const weft::llama_config small_llama{
    .layers = 4, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 56, .vocab = 256, .max_seq = 24};

}  // namespace weft_test
