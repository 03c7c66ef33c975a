// Reference values that PyTorch computed, by name, and the run of Weft that is held to them. Invariant: sizes and rates come
// from the reference's own "config", so that the script alone decides them.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <weft/train/loop.hpp>
#include <weft/weft.hpp>

namespace golden {

using numbers = std::map<std::string, std::vector<double>>;

/// "config" of a reference; the order is written in the second line of each .inc.
struct settings {
  weft::llama_config model;
  weft::adamw optimizer;
  weft::warmup_cosine schedule;
  std::int64_t batch, seq;
  int steps;
  std::uint64_t seed;

  explicit settings(const std::vector<double>& c) {
    REQUIRE(c.size() == 22);
    const auto whole = [&](std::size_t i) { return static_cast<std::int64_t>(c[i]); };
    batch = whole(6), seq = whole(7), steps = static_cast<int>(whole(14)), seed = static_cast<std::uint64_t>(whole(9));
    model = {.layers = whole(0), .hidden = whole(1), .heads = whole(2), .kv_heads = whole(3), .ffn = whole(4), .vocab = whole(5), .max_seq = seq,
             .rope_theta = c[11], .norm_eps = c[12], .init_stddev = c[13], .tied_embeddings = c[8] != 0};
    schedule = {.warmup = static_cast<int>(whole(15)), .floor = c[16]};
    optimizer = {.lr = c[17], .beta1 = c[18], .beta2 = c[19], .eps = c[20], .weight_decay = c[21], .clip_norm = c[10]};
  }
};

/// As the script's batch_of.
inline double token(const settings& s, int step, std::int64_t i) { return static_cast<double>((step * 31 + i * i * 5 + i * 3) % s.model.vocab); }
inline double target(const settings& s, int step, std::int64_t i) { return (i + step) % 9 == 4 ? -1 : token(s, step, i + 1); }

/// The whole logits of a batch: [batch, seq, vocab], row-major.
template <class Model, class Ids>
void read_logits(weft::context& rank, Model& model, const Ids& tokens, std::vector<double>& out) {
  using namespace weft;
  const recording off(rank, nullptr);
  const auto mine = all_gather<tp>(model(tokens));  // [batch/dp, seq, vocab]
  if (rank.index<tp>() != 0) return;
  const std::int64_t n = mine.local_elements();
  for (std::int64_t i = 0; i < n; ++i) out[static_cast<std::size_t>(rank.index<dp>() * n + i)] = static_cast<double>(mine.local_data()[i]);
}

/// As the script's checksums: sum, sum of squares, and a sum that notices when two elements are exchanged.
inline std::vector<double> checksums(const std::vector<double>& x) {
  std::vector<double> out(3);
  for (std::size_t i = 0; i < x.size(); ++i) {
    out[0] += x[i];
    out[1] += x[i] * x[i];
    out[2] += x[i] * (static_cast<double>(i * 7919 % 1009) / 1009 - 0.5);
  }
  return out;
}

/// Everything in the reference, computed by Weft under a strategy.
template <class S>
numbers replay(const weft::degrees& degrees, const settings& s) {
  using namespace weft;
  numbers out;
  auto& logits = out["logits"];
  logits.resize(static_cast<std::size_t>(s.batch * s.seq * s.model.vocab));
  std::mutex lock;
  launch<S>(degrees, [&](context& rank) {
    llama<S> model(rank, s.model);
    parameter_store<cpu_backend, typename S::precision> store(rank, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    // Writes every parameter's gradient or weights to `to`, each rank what it holds.
    const auto collect = [&](const char* prefix, numbers& to, bool gradients, double scale) {
      store.each_parameter([&](const parameter_record& p, const auto* gradient, const auto* weight) {
        const std::lock_guard guard(lock);
        auto& all = to[prefix + p.name];
        all.resize(static_cast<std::size_t>(p.global.elements()), NAN);
        for (std::int64_t i = 0; i < p.local.elements(); ++i)
          all[static_cast<std::size_t>(detail::global_index(p, i))] = scale * static_cast<double>(gradients ? gradient[i] : weight[i]);
      });
    };
    for (int step = 1; step <= s.steps; ++step) {
      using ids = typename llama<S>::ids;
      const auto x = generate<ids>(rank, {s.batch, s.seq}, [&](std::int64_t i) { return token(s, step, i); });
      const auto y = generate<ids>(rank, {s.batch, s.seq}, [&](std::int64_t i) { return target(s, step, i); });
      if (step == 1) read_logits(rank, model, x, logits);
      store.begin_step(1);
      const auto l = cross_entropy(model(x), y);
      const double count = static_cast<double>(*all_reduce<dp>(l.count).local_data());
      const double loss = static_cast<double>(*all_reduce<dp>(l.sum).local_data()) / count;
      backward(l.sum);
      store.end_micro_batch();
      store.finish_gradients();
      const double norm = store.gradient_norm() / count;
      if (step == 1) collect("gradient ", out, true, 1 / count);
      const double rate = s.optimizer.lr * s.schedule(step - 1, s.steps);
      store.step(s.optimizer.at(step, rate, detail::gradient_scale(norm, count, s.optimizer.clip_norm)));
      const std::lock_guard guard(lock);
      if (rank.is_first()) out["losses"].push_back(loss), out["norms"].push_back(norm);
    }
    collect("weights ", out, false, 1);
    model.release();
  }, {.seed = s.seed});
  for (auto& [name, all] : out)
    if (name.starts_with("weights ")) all = checksums(all);
  return out;
}

/// Largest deviations, each relative to the largest number of its entry.
struct tolerance {
  double logits, losses, norms, gradients, weights;
  double of(const std::string& name) const {
    return name == "logits" ? logits : name == "losses" ? losses : name == "norms" ? norms : name.starts_with("gradient ") ? gradients : weights;
  }
};

inline void check(const numbers& reference, const numbers& weft, const tolerance& most) {
  CHECK(weft.size() + 1 == reference.size());  // all but "config"
  for (const auto& [name, expected] : reference) {
    if (name == "config") continue;
    CAPTURE(name);
    const auto found = weft.find(name);
    REQUIRE(found != weft.end());
    REQUIRE(found->second.size() == expected.size());
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      const double off = std::abs(expected[i] - found->second[i]);
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
    }
    CHECK(largest > 0);
    CHECK(worst <= most.of(name) * largest);
  }
}

}  // namespace golden
