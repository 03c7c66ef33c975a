// Trains a small model for a few steps under a strategy and returns what must not depend on it: the losses and every
// gradient, as global arrays.
#pragma once

#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace weft_test {

struct output {
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<double>> gradients;  // of the last step, by global index
};

struct plan {
  int batch = 8, seq = 16, steps = 5, micro_batches = 1;
};
struct task : plan {
  weft::llama_config model{.layers = 2, .hidden = 32, .heads = 8, .kv_heads = 8, .ffn = 64, .vocab = 48, .max_seq = 16};
};

template <class Model, class Config>
output train_model(const weft::degrees& degrees, const Config& config, const plan& t) {
  using S = typename Model::strategy;
  using namespace weft;
  output out;
  std::mutex lock;
  launch<S>(degrees, [&](context& ctx) {
    Model model(ctx, config);
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    pipeline<Model> stages(ctx, model);
    const adamw optimizer{.lr = 1e-2};
    const double tokens = double(t.batch) * t.seq * t.micro_batches;
    for (int step = 1; step <= t.steps; ++step) {
      store.begin_step(t.micro_batches);
      const auto read = [&](int micro) {
        const philox numbers{7, std::uint64_t(step * 16 + micro)};
        const auto token = [&](std::int64_t i) {  // mostly predictable, so that there is something to learn
          const auto u = numbers.word(std::uint64_t(i));
          return std::int64_t(u % 4 ? i * 5 % config.vocab : u / 4 % config.vocab);
        };
        using ids = typename Model::ids;
        struct {
          ids tokens, targets;
        } batch{generate<ids>(ctx, {t.batch, t.seq}, token),
                generate<ids>(ctx, {t.batch, t.seq}, [&](std::int64_t i) { return token(i + 1); })};
        return batch;
      };
      const loss_sums own = stages.train(t.micro_batches, 1, read, [&](int) { store.end_micro_batch(); });
      const double loss = finished<typename pipeline<Model>::loss_tensor>(ctx, own).sum;
      store.finish_gradients();
      const double norm = store.gradient_norm() / tokens;
      if (step == t.steps)
        store.each_parameter([&](const parameter_record& p, const auto* gradient, const auto* weight) {
          const std::lock_guard guard(lock);
          auto& all = out.gradients[p.name];
          all.resize(std::size_t(p.global.elements()), NAN);
          for (std::int64_t i = 0; i < p.local.elements(); ++i) {
            const double g = double(gradient[i]) / tokens;
            const std::int64_t index = detail::global_index(p, i);
            if (index < 0) {
              require(g == 0 && double(weight[i]) == 0, "the padding of parameter ", p.name,
                      " has a gradient or a weight");
              continue;
            }
            double& at = all[std::size_t(index)];
            // Ranks that hold the same elements hold the same numbers: collectives give every rank the same bits.
            if (!std::isnan(at) && at != g)
              at = INFINITY;
            else
              at = g;
          }
        });
      store.step(optimizer.at(step, optimizer.lr, 1 / tokens));
      const std::lock_guard guard(lock);
      if (ctx.is_first()) {
        out.losses.push_back(loss / tokens);
        out.norms.push_back(norm);
      }
    }
  });
  return out;
}

template <class S>
output train(const weft::degrees& degrees, const task& t = {}) {
  return train_model<weft::llama<S>>(degrees, t.model, t);
}

/// `loss`: relative tolerance of losses and norms; `gradient`: of each gradient, relative to its parameter's largest.
inline void check_equal(const output& serial, const output& parallel, double loss, double gradient) {
  REQUIRE(serial.losses.size() == parallel.losses.size());
  for (std::size_t i = 0; i < serial.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(serial.losses[i] - parallel.losses[i]) <= loss * std::abs(serial.losses[i]));
    CHECK(std::abs(serial.norms[i] - parallel.norms[i]) <= 20 * loss * std::abs(serial.norms[i]));
  }
  REQUIRE(serial.gradients.size() == parallel.gradients.size());
  for (const auto& entry : serial.gradients) {
    const auto& name = entry.first;  // not a structured binding: clang 14 can't capture those
    const auto& expected = entry.second;
    const auto& got = parallel.gradients.at(name);
    REQUIRE(expected.size() == got.size());
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      const double off = std::abs(expected[i] - got[i]);
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
    }
    CAPTURE(name);
    CHECK(largest > 0);
    CHECK(worst <= gradient * largest);
  }
}

}  // namespace weft_test
