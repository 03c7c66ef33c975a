// A loop of one's own over a parameter store, without a trainer: for tests that ask what became of every weight. It
// trains models as those of examples/05_own_training.cpp, which this includes. Invariant: what it returns is global.
#pragma once

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#define main inline example_main
#include "../../examples/05_own_training.cpp"
#undef main

namespace weft_test {

template <class Sharding, class... Axes>
using wide = strategy<mesh<dp, Axes..., tp>, Sharding, fp64>;

using numbers = std::map<std::string, std::vector<double>>;

struct nothing {
  bool operator()(const parameter_record&) const { return false; }
};

// Three steps of two micro-batches; the weights, as global arrays, and f(ctx, store) on every rank after them.
template <class Model, class Optimizer, class Freeze = nothing, class After = nothing>
numbers train_by_hand(const degrees& ranks, const Optimizer& optimizer, Freeze freeze = {}, After after = {},
                      trace_log* log = nullptr) {
  using S = typename Model::strategy;
  numbers out;
  std::mutex lock;
  launch<S>(ranks,
            [&](context& ctx) {
              Model model(ctx);
              model.registry().freeze(freeze);
              parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(),
                                                                        config_of<typename S::sharding, Optimizer>());
              model.use(store);
              const counting data{&ctx};
              for (int step = 1; step <= 3; ++step) {
                store.begin_step(2);
                for (int micro = 0; micro < 2; ++micro) {
                  const auto batch = data.train<token_ids<S>>(step, micro * 8, 8, 4);
                  backward(smoothed_loss{}(model(batch.tokens), batch.targets).sum);
                  store.end_micro_batch();
                }
                store.finish_gradients();
                const double tokens = 2 * 8 * 4, norm = store.gradient_norm() / tokens;
                store.update(optimizer, {step, optimizer.lr, clip_factor(norm, 1.0) / tokens});
              }
              store.each_parameter([&](const parameter_record& p, auto gradient, auto weight) {
                CHECK(gradient.empty() == !p.trained);
                const std::lock_guard guard(lock);
                auto& all = out[p.name];
                all.resize(static_cast<std::size_t>(p.global.elements()), NAN);
                for (std::int64_t i = 0; i < p.local.elements(); ++i)
                  if (const std::int64_t at = p.at.global_index(i); at >= 0)
                    all[static_cast<std::size_t>(at)] = double(weight[i]);
              });
              if constexpr (!std::is_same_v<After, nothing>) after(ctx, store);
              model.release();
            },
            {.trace = log ? trace_target(log) : trace_target()});
  return out;
}

inline double worst(const numbers& a, const numbers& b) {
  REQUIRE(a.size() == b.size());
  double off = 0;
  for (const auto& entry : a)
    for (std::size_t i = 0; i < entry.second.size(); ++i) {
      const double d = std::abs(entry.second[i] - b.at(entry.first)[i]);
      off = std::isfinite(d) ? std::max(off, d) : INFINITY;
    }
  return off;
}

}  // namespace weft_test
