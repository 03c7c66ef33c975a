// Reference values that PyTorch computed, by name, and the run of Weft that is held to them. Invariant: sizes and rates
// come from the reference's own "config ..." entries, so that the script alone decides them.
#pragma once

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/train/loop.hpp>
#include <weft/weft.hpp>

namespace golden {

using numbers = std::map<std::string, std::vector<double>>;

/// The "config ..." entries of a reference.
struct settings {
  weft::adamw optimizer;
  weft::warmup_cosine schedule;
  std::int64_t batch, seq, vocab;
  int steps;
  double clip_norm;
  std::uint64_t seed;

  explicit settings(const numbers& reference) {
    const auto c = [&](const char* name) { return reference.at(std::string("config ") + name).at(0); };
    const auto whole = [&](const char* name) { return static_cast<std::int64_t>(c(name)); };
    batch = whole("batch"), seq = whole("seq"), vocab = whole("vocab"), steps = static_cast<int>(whole("steps"));
    seed = static_cast<std::uint64_t>(whole("seed"));
    schedule = {.warmup = static_cast<int>(whole("warmup")), .floor = c("floor")};
    optimizer = {
        .lr = c("lr"), .beta1 = c("beta1"), .beta2 = c("beta2"), .eps = c("adam_eps"), .weight_decay = c("decay")};
    clip_norm = c("clip");
  }
};

/// As the script's batch_of.
inline double token(const settings& s, int step, std::int64_t i) {
  return static_cast<double>((step * 31 + i * i * 5 + i * 3) % s.vocab);
}
inline double target(const settings& s, int step, std::int64_t i) {
  return (i + step) % 9 == 4 ? -1 : token(s, step, i + 1);
}

/// The whole logits of a batch: [batch, seq, vocab], row-major.
template <class Model, class Ids>
void read_logits(weft::context& ctx, Model& model, const Ids& tokens, std::vector<double>& out) {
  using namespace weft;
  const recording off(ctx, nullptr);
  const auto mine = all_gather<tp>(model(tokens));  // [batch/dp, seq, vocab]
  if (ctx.index<tp>() != 0) return;
  const std::int64_t n = mine.local_share().size();
  for (std::int64_t i = 0; i < n; ++i)
    out[static_cast<std::size_t>(ctx.index<dp>().here() * n + i)] = static_cast<double>(mine.local_share()[i]);
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

/// Everything in the reference, computed by Weft: Model is of a strategy.
template <class Model, class Config>
numbers trained_again(const weft::degrees& degrees, const Config& config, const settings& s) {
  using namespace weft;
  using S = typename Model::strategy;
  numbers out;
  auto& logits = out["logits"];
  logits.resize(static_cast<std::size_t>(s.batch * s.seq * s.vocab));
  std::mutex lock;
  launch<S>(degrees,
            [&](context& ctx) {
              Model model(ctx, config);
              parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(),
                                                                        config_of<typename S::sharding>());
              model.use(store);
              // Writes every parameter's gradient or weights to `to`, each rank what it holds.
              const auto collect = [&](const char* prefix, numbers& to, bool gradients, double scale) {
                store.each_parameter([&](const parameter_record& p, auto gradient, auto weight) {
                  const std::lock_guard guard(lock);
                  auto& all = to[prefix + p.name];
                  all.resize(static_cast<std::size_t>(p.global.elements()), NAN);
                  for (std::int64_t i = 0; i < p.local.elements(); ++i)
                    all[static_cast<std::size_t>(p.at.global_index(i))] =
                        scale * static_cast<double>(gradients ? gradient[i] : weight[i]);
                });
              };
              for (int step = 1; step <= s.steps; ++step) {
                using ids = typename Model::ids;
                const auto x = generate<ids>(ctx, {s.batch, s.seq}, [&](std::int64_t i) { return token(s, step, i); });
                const auto y = generate<ids>(ctx, {s.batch, s.seq}, [&](std::int64_t i) { return target(s, step, i); });
                if (step == 1) read_logits(ctx, model, x, logits);
                store.begin_step(1);
                const auto l = cross_entropy(model(x), y);
                const double count = static_cast<double>(item(all_reduce<dp>(l.count)));
                const double loss = static_cast<double>(item(all_reduce<dp>(l.sum))) / count;
                backward(l.sum);
                store.end_micro_batch();
                store.finish_gradients();
                const double norm = store.gradient_norm() / count;
                if (step == 1) collect("gradient ", out, true, 1 / count);
                const double rate = s.optimizer.lr * s.schedule(step - 1, s.steps);
                store.step(s.optimizer.at(step, rate, detail::gradient_scale(norm, count, s.clip_norm)));
                const std::lock_guard guard(lock);
                if (ctx.is_first()) out["losses"].push_back(loss), out["norms"].push_back(norm);
              }
              collect("weights ", out, false, 1);
              model.release();
            },
            {.seed = s.seed});
  for (auto& [name, all] : out)
    if (name.starts_with("weights ")) all = checksums(all);
  return out;
}

/// Largest deviations, each relative to the largest number of its entry.
struct tolerance {
  double logits, losses, norms, gradients, weights;
  double& of(const std::string& name) {
    return name == "logits"                ? logits
           : name == "losses"              ? losses
           : name == "norms"               ? norms
           : name.starts_with("gradient ") ? gradients
                                           : weights;
  }
};

inline double largest_of(const std::vector<double>& x) {
  double most = 0;
  for (const double v : x) most = std::max(most, std::abs(v));
  return most;
}

/// Holds Weft's numbers to the reference's, and says how far off the worst of each kind is.
inline void check(const numbers& reference, const numbers& weft, tolerance most) {
  tolerance off_by{};
  for (const auto& entry : reference) {
    const auto& name = entry.first;  // not a structured binding: clang 14 can't capture those
    const auto& expected = entry.second;
    if (name.starts_with("config ")) continue;
    CAPTURE(name);
    const auto found = weft.find(name);
    REQUIRE(found != weft.end());
    REQUIRE(found->second.size() == expected.size());
    double worst = 0, largest = largest_of(expected);
    // A gradient that vanishes but for rounding is written as zeros, and held against that of the weight beside it.
    if (largest == 0 && name.ends_with("_bias")) largest = largest_of(reference.at(name.substr(0, name.size() - 5)));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double off = std::abs(expected[i] - found->second[i]);
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
    }
    CHECK(largest > 0);
    CHECK(worst <= most.of(name) * largest);
    off_by.of(name) = std::max(off_by.of(name), worst / largest);
  }
  for (const auto& entry : weft) {  // and nothing that the reference lacks, but the weights whose gradient vanishes
    CAPTURE(entry.first);
    CHECK((reference.count(entry.first) == 1 || entry.first.ends_with("key_bias")));
  }
  MESSAGE("deviations: logits " << off_by.logits << ", losses " << off_by.losses << ", norms " << off_by.norms
                                << ", gradients " << off_by.gradients << ", weights " << off_by.weights);
}

}  // namespace golden
