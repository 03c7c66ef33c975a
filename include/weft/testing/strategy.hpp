// The law of a strategy, and so of each of its policies: a small model trained for a few steps is the same, losses and
// every gradient, as on one rank with nothing sharded, recomputed or staged. Needs no test framework.
// Invariant: what is compared is global: numbers that don't depend on who held them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
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

/// How it is trained. batch, seq: sequences of all ranks in one micro-batch, and tokens of each. steps: of the
/// optimizer, on micro_batches micro-batches each; the gradients compared are the last one's. begin: the numbers that a
/// parameter begins with, by global index, on a backend in the host's memory; none: those that its model gives it.
struct training_plan {
  int batch = 8, seq = 16, steps = 5, micro_batches = 1;
  std::function<std::vector<double>(const parameter_record&)> begin = {};
};
/// What is trained, and how: `{{.steps = 2}}`, or `{{.micro_batches = 4}, {.layers = 4, .hidden = 32, ...}}`. model:
/// the Llama's config; its heads, batch and the like have to be divisible as far as a strategy's mesh wants.
struct training_task : training_plan {
  llama_config model{.layers = 2, .hidden = 32, .heads = 8, .kv_heads = 8, .ffn = 64, .vocab = 48, .max_seq = 16};
};

/// Trains a Model for t.steps steps on such a mesh, by an optimizer of the library's or of a user's own.
template <class Model, class Config, any_optimizer Optimizer = adamw>
training_output train_model(const weft::degrees& degrees, const Config& config, const training_plan& t,
                            const Optimizer& optimizer = {.lr = 1e-2}) {
  using S = typename Model::strategy;
  training_output out;
  std::mutex lock;
  launch<S>(degrees, [&](context& ctx) {
    Model model(ctx, config);
    parameter_store<typename S::backend, typename S::precision> store(ctx, model.registry(),
                                                                      config_of<typename S::sharding, Optimizer>());
    model.use(store);
    if constexpr (S::backend::host_memory)
      if (t.begin) store.load_parameters(t.begin);
    pipeline<Model> stages(ctx, model);
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
        store.each_parameter([&](const parameter_record& p, auto gradient, auto weight) {
          if (gradient.empty()) return;  // frozen
          const std::lock_guard guard(lock);
          auto& all = out.gradients[p.name];
          all.resize(std::size_t(p.global.elements()), NAN);
          for (std::int64_t i = 0; i < p.local.elements(); ++i) {
            const double g = double(gradient[i]) / tokens;
            const std::int64_t index = p.at.global_index(i);
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
      store.update(optimizer, {step, optimizer.lr, 1 / tokens});
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
template <class S, any_optimizer Optimizer = adamw>
training_output train(const weft::degrees& degrees, const training_task& t = {},
                      const Optimizer& optimizer = {.lr = 1e-2}) {
  return train_model<llama<S>>(degrees, t.model, t, optimizer);
}

/// Where two trainings differ, a line each. loss: relative tolerance of losses and norms; gradient: of each gradient,
/// relative to its parameter's largest.
inline std::vector<std::string> disagreements(const training_output& one, const training_output& all, double loss,
                                              double gradient) {
  std::vector<std::string> out;
  const auto differ = [&](const std::string& what, double a, double b) {
    char numbers[100];
    std::snprintf(numbers, sizeof numbers, "%.12g on one rank and %.12g on all", a, b);
    out.push_back(what + ": " + numbers);
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

namespace detail {
/// How far a number is from the next that T has, relative to it.
template <class T>
inline constexpr double rounding_of = std::same_as<T, bf16>    ? 1. / 128
                                      : sizeof(T) == 2         ? 1. / 1024
                                      : std::same_as<T, float> ? double(std::numeric_limits<float>::epsilon())
                                                               : std::numeric_limits<double>::epsilon();
}  // namespace detail

/// Throws weft::failure, a line for each disagreement, unless a small Llama trained under S on such a mesh has the
/// losses and gradients of one rank under the library's own policies with S's precision and projections (which are
/// compared with themselves; it computes in fp32 or fp64, since rounding in 16 bits would hide what is looked for).
/// Where gradients are kept or sent in 16 bits it is one step, and the tolerance four units of their last place. A
/// model with fewer layers than the mesh has virtual stages gets one for each, and a schedule that asks for another
/// number of micro-batches one for each rank along pp. Cost: seconds, on as many threads as the mesh has ranks.
///
///   testing::check_strategy<strategy<mesh<dp, tp>, eager, fp64>>({.dp = 2, .tp = 2});
template <class S>
void check_strategy(const degrees& mesh, training_task t = {}) {
  using compute = typename S::precision::compute;
  constexpr bool exact = sizeof(compute) >= 4;
  static_assert(exact,
                "weft: check_strategy compares numbers of fp32 or fp64, since rounding in 16 bits hides what it looks "
                "for: give the strategy one of them as its precision");
  if constexpr (exact) {
    // Rounding is 1e-16 (6e-8); AdamW divides by the root of a small second moment, which multiplies it by up to 1e4
    // in the first steps, and five steps add up. An error of placement is of order 1.
    constexpr double rounding = std::max(detail::rounding_of<typename S::precision::gradient>,
                                         detail::rounding_of<typename S::precision::reduce>);
    constexpr bool wide = sizeof(compute) == 8, narrow = rounding > 1e-4;
    constexpr double loss = narrow ? rounding / 4 : wide && rounding < 1e-10 ? 1e-10 : 1e-5;
    constexpr double gradient = narrow ? 4 * rounding : wide && rounding < 1e-10 ? 1e-8 : 5e-3;
    if (narrow) t.steps = 1;
    using schedule = typename S::schedule;
    t.model.layers = std::max<std::int64_t>(t.model.layers, mesh.of<pp>() * chunks_of<schedule>);
    if (!weft::detail::asked_by<schedule>(static_cast<int>(mesh.of<pp>()), t.micro_batches).empty())
      t.micro_batches = static_cast<int>(mesh.of<pp>());
    const auto one = train<strategy<weft::mesh<dp>, replicated, typename S::precision, typename S::projections>>({}, t);
    std::string wrong;
    for (const std::string& line : disagreements(one, train<S>(mesh, t), loss, gradient)) wrong += line + "\n";
    require(wrong.empty(), wrong);
  }
}

}  // namespace weft::testing
