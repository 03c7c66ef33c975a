// The law of a strategy, and so of each of its policies: a small model trained for a few steps is the same, losses and
// every gradient, as on one rank with nothing sharded, recomputed or staged. Needs no test framework.
// Invariant: what is compared is global: numbers that don't depend on who held them.
#pragma once

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <weft/comm/threads.hpp>
#include <weft/nn/llama.hpp>
#include <weft/op/create.hpp>
#include <weft/optim/adamw.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/parallel/parameter_store.hpp>
#include <weft/parallel/pipeline.hpp>

namespace weft::testing {

/// What training came to.
struct training_output {
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<double>> gradients;  // of the last step, by global index
};

struct training_plan {
  int batch = 8, seq = 16, steps = 5, micro_batches = 1;
};
struct training_task : training_plan {
  llama_config model{.layers = 2, .hidden = 32, .heads = 8, .kv_heads = 8, .ffn = 64, .vocab = 48, .max_seq = 16};
};

/// Trains a Model for t.steps steps on such a mesh.
template <class Model, class Config>
training_output train_model(const weft::degrees& degrees, const Config& config, const training_plan& t) {
  using S = typename Model::strategy;
  training_output out;
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
            const std::int64_t index = weft::detail::global_index(p, i);
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

/// Trains a small Llama under the strategy S.
template <class S>
training_output train(const weft::degrees& degrees, const training_task& t = {}) {
  return train_model<llama<S>>(degrees, t.model, t);
}

/// Where two trainings differ, a line each. loss: relative tolerance of losses and norms; gradient: of each gradient,
/// relative to its parameter's largest.
inline std::vector<std::string> disagreements(const training_output& one, const training_output& all, double loss,
                                              double gradient) {
  std::vector<std::string> out;
  const auto differ = [&](const std::string& what, double a, double b) {
    out.push_back(what + ": " + std::to_string(a) + " on one rank and " + std::to_string(b) + " on all");
  };
  if (one.losses.size() != all.losses.size() || one.gradients.size() != all.gradients.size())
    return {"the two have another number of steps or of parameters"};
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    if (!(std::abs(one.losses[i] - all.losses[i]) <= loss * std::abs(one.losses[i])))
      differ("loss of step " + std::to_string(i + 1), one.losses[i], all.losses[i]);
    if (!(std::abs(one.norms[i] - all.norms[i]) <= 20 * loss * std::abs(one.norms[i])))
      differ("gradient norm of step " + std::to_string(i + 1), one.norms[i], all.norms[i]);
  }
  for (const auto& [name, expected] : one.gradients) {
    const auto found = all.gradients.find(name);
    if (found == all.gradients.end() || found->second.size() != expected.size()) {
      out.push_back("parameter " + name + " is missing, or has another size");
      continue;
    }
    double largest = 0, worst = -1;
    std::size_t at = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      const double off = std::abs(expected[i] - found->second[i]);
      if (!(off <= worst)) worst = std::isfinite(off) ? off : INFINITY, at = i;
    }
    if (!(largest > 0)) out.push_back("the gradient of " + name + " is zero, so nothing was tested");
    if (!(worst <= gradient * largest))
      differ("gradient of " + name + ", element " + std::to_string(at), expected[at], found->second[at]);
  }
  return out;
}

/// Throws weft::failure, a line for each disagreement, unless a small Llama trained under S on such a mesh has the
/// losses and gradients of one rank under the library's own policies with S's precision (which is compared with itself,
/// and computes in fp32 or fp64: rounding in 16 bits would hide what is looked for). Cost: seconds, on as many threads
/// as the mesh has ranks.
///
///   testing::check_strategy<strategy<mesh<dp, tp>, eager, fp64>>({.dp = 2, .tp = 2});
template <class S>
void check_strategy(const degrees& mesh, const training_task& t = {}) {
  using compute = typename S::precision::compute;
  constexpr bool exact = sizeof(compute) >= 4;
  static_assert(exact,
                "weft: check_strategy compares numbers of fp32 or fp64, since rounding in 16 bits hides what it looks "
                "for: give the strategy one of them as its precision");
  if constexpr (exact) {
    // Rounding is 1e-16 (6e-8); AdamW divides by the root of a small second moment, which multiplies it by up to 1e4
    // in the first steps, and five steps add up. An error of placement is of order 1.
    constexpr bool wide = sizeof(compute) == 8;
    const auto one = train<strategy<weft::mesh<dp>, replicated, typename S::precision>>({}, t);
    std::string wrong;
    for (const std::string& line : disagreements(one, train<S>(mesh, t), wide ? 1e-10 : 1e-5, wide ? 1e-8 : 5e-3))
      wrong += line + "\n";
    require(wrong.empty(), wrong);
  }
}

}  // namespace weft::testing
