// One cell: trains a model under a strategy on a mesh, through the trainer, and compares with one rank in the same
// precision. Invariant: what is compared are numbers by global index, so that nothing of the sharding is in them.
#pragma once

#include <cmath>
#include <map>
#include <mutex>

#include <weft/plan/rank.hpp>

#include "axes.hpp"

namespace matrix {

constexpr int steps = 3;

/// Batches as a function of (step, row, column); mostly predictable, and every row lacks another number of targets.
struct rows_of_numbers {
  std::int64_t vocab;

  bool has_target(std::int64_t row, std::int64_t column) const { return column < 8 + (row * 7) % 17; }
  std::int64_t token(std::int64_t step, std::int64_t row, std::int64_t column) const {
    const auto u = philox{7, static_cast<std::uint64_t>(step)}.word(static_cast<std::uint64_t>(row * 64 + column));
    return static_cast<std::int64_t>(u % 4 ? (row * 11 + column * 5) % vocab : u / 4 % vocab);
  }
  std::int64_t count(std::int64_t rows) const {
    std::int64_t n = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < length; ++c) n += has_target(r, c);
    return n;
  }

  context* rank;
  template <any_tensor Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t rows, std::int64_t columns) const {
    const auto at = [&](std::int64_t i, std::int64_t ahead) {
      return token(step, first + i / columns, i % columns + ahead);
    };
    return {generate<Ids>(*rank, {rows, columns}, [&](std::int64_t i) { return at(i, 0); }),
            generate<Ids>(*rank, {rows, columns}, [&](std::int64_t i) {
              return has_target(first + i / columns, i % columns) ? at(i, 1) : std::int64_t{-1};
            })};
  }
  bool can_validate(std::int64_t) const { return false; }
  template <any_tensor Ids>
  token_batch<Ids> validation(std::int64_t first, std::int64_t rows, std::int64_t columns) const {
    return train<Ids>(0, first, rows, columns);
  }
};

/// What a rank held and moved in a step, in bytes.
struct rank_use {
  std::string report;                     // all of it by category, operation and axis; what is compared with the plan
  std::size_t peak = 0, activations = 0;  // the most that it held, in all and of activations
  std::int64_t received = 0;              // from other ranks
};

using gradients = std::map<std::string, std::vector<double>>;
struct trained {
  std::vector<double> losses, norms;
  gradients first, last;
  int skipped = 0;               // steps that overflowed under the loss scale, and were taken again under half of it
  bool same_bits = true;         // on ranks that hold the same elements, and zeros in padding
  std::vector<rank_use> second;  // by rank: the second step's memory and traffic, where check doesn't add to it
};

/// A step as the trainer's run takes it.
inline training one_step(std::int64_t rows) {
  return {.steps = 1,
          .batch = rows * micro_batches,
          .micro_batches = micro_batches,
          .schedule = {.floor = 1},
          .validation_sequences = 0,
          .print = false};
}
/// A rank's memory since its peaks began anew, and its traffic since the log did.
inline rank_use taken(context& ctx, std::vector<trace_total> collectives) {
  rank_plan p;
  p.rank = ctx.rank().here(), p.ranks = ctx.size();
  p.memory = ctx.memory.ledger();
  p.collectives = std::move(collectives);
  p.memory.reserved = 0;  // of the system, by the run's first steps too
  rank_use out{json_of(p), p.memory.peak_total, p.memory.peak[static_cast<std::size_t>(memory::activations)]};
  for (const trace_total& t : p.collectives) out.received += t.wire_bytes;
  return out;
}

template <class Model>
trained train(const degrees& mesh, std::int64_t rows, bool check = false) {
  using S = typename Model::strategy;
  trained out;
  std::mutex lock;
  trace_log log(static_cast<int>(mesh.product()));
  out.second.resize(static_cast<std::size_t>(mesh.product()));
  launch<S>(
      mesh,
      [&](context& ctx) {
        const auto config = config_for(static_cast<const Model*>(nullptr));
        Model model(ctx, config);
        trainer t(ctx, model, {.lr = 1e-3});
        const rows_of_numbers data{config.vocab, &ctx};
        const double count = static_cast<double>(data.count(rows * micro_batches));
        double scale = initial_loss_scale<typename S::precision> > 0 ? initial_loss_scale<typename S::precision> : 1;
        for (int step = 1; step <= steps; ++step) {
          training_result r;
          std::size_t before = 0;  // events
          for (int attempt = 0; attempt == 0 || r.skipped != 0; ++attempt) {
            ctx.memory.reset_peaks();
            before = log.events(ctx.rank().here()).size();
            r = t.run(data, one_step(rows));
            require(attempt < 40, "no loss scale fits");
            if (r.skipped != 0) scale /= 2;
            if (ctx.is_first()) out.skipped += static_cast<int>(r.skipped);
          }
          if (step == 2)
            out.second[static_cast<std::size_t>(ctx.rank().here())] = taken(ctx, log.totals(ctx.rank().here(), before));
          const double divisor = count * scale;
          const double norm = t.store().gradient_norm() / divisor;
          if (ctx.is_first()) out.losses.push_back(r.loss), out.norms.push_back(norm);
          if (step != 1 && step != steps) continue;
          t.store().each_parameter([&](const parameter_record& p, auto gradient, auto weight) {
            const std::lock_guard guard(lock);
            auto& all = (step == 1 ? out.first : out.last)[p.name];
            all.resize(static_cast<std::size_t>(p.global.elements()), NAN);
            for (std::int64_t i = 0; i < p.local.elements(); ++i) {
              const std::int64_t index = p.at.global_index(i);
              if (index < 0) {  // padding
                out.same_bits &= gradient[i] == 0 && weight[i] == 0;
                continue;
              }
              double& at = all[static_cast<std::size_t>(index)];
              const double g = static_cast<double>(gradient[i]) / divisor;
              out.same_bits &= std::isnan(at) || at == g;
              at = g;
            }
          });
        }
      },
      {.trace = &log, .check = check});
  return out;
}

/// The same of the run's plan. `Planned` is the model on the plan's backend.
template <class Planned, class S>
std::vector<rank_use> plan(const degrees& mesh, std::int64_t rows) {
  std::vector<rank_use> out;
  for (int rank = 0; rank < mesh.product(); ++rank) {
    planned_rank<S> one(mesh, rank);
    const auto config = config_for(static_cast<const Planned*>(nullptr));
    Planned model(one.ctx(), config);
    trainer t(one.ctx(), model, {.lr = 1e-3});
    const rows_of_numbers data{config.vocab, &one.ctx()};
    for (int step = 1; step <= 2; ++step) {
      one.ctx().memory.reset_peaks();
      one.forget_collectives();
      t.run(data, one_step(rows));
    }
    out.push_back(taken(one.ctx(), one.report().collectives));
  }
  return out;
}

/// The worst deviations from one rank, in the terms of `tolerance`; infinite where something is missing.
struct deviation {
  double loss = 0, first = 0, last = 0;
  bool within(const tolerance& t) const { return loss <= t.loss && first <= t.first && last <= t.last; }
};

inline void add(double& worst, double off) { worst = std::isfinite(off) ? std::max(worst, off) : INFINITY; }

inline double compare(const gradients& serial, const gradients& parallel) {
  double worst = serial.size() == parallel.size() && !serial.empty() ? 0 : INFINITY;
  const auto largest_of = [](const std::vector<double>& x) {
    double most = 0;
    for (const double v : x) most = std::max(most, std::abs(v));
    return most;
  };
  for (const auto& entry : serial) {
    const auto found = parallel.find(entry.first);
    if (found == parallel.end() || found->second.size() != entry.second.size()) return INFINITY;
    // A bias added to all keys adds the same to all of a query's logits, which softmax doesn't see: its gradient is
    // zero but for rounding, and is held against that of the weight beside it.
    const std::string& name = entry.first;
    const bool vanishes = name.ends_with("key_bias");
    const double largest = largest_of(vanishes ? serial.at(name.substr(0, name.size() - 5)) : entry.second);
    if (largest == 0) return INFINITY;
    for (std::size_t i = 0; i < entry.second.size(); ++i)
      add(worst, std::abs(entry.second[i] - found->second[i]) / largest);
  }
  return worst;
}

inline deviation compare(const trained& serial, const trained& parallel) {
  deviation d;
  if (!parallel.same_bits || parallel.skipped != serial.skipped || parallel.losses.size() != steps ||
      serial.losses.size() != steps)
    d.loss = INFINITY;
  for (std::size_t i = 0; i < parallel.losses.size(); ++i) {
    add(d.loss, std::abs(serial.losses[i] - parallel.losses[i]) / std::abs(serial.losses[i]));
    add(d.loss,
        std::abs(serial.norms[i] - parallel.norms[i]) / std::abs(serial.norms[i]) / 20);  // a norm of sums that cancel
  }
  d.first = compare(serial.first, parallel.first);
  d.last = compare(serial.last, parallel.last);
  return d;
}

struct verdict {
  bool legal = false;
  deviation off;
  std::string refusal;  // the library's sentence, where the cell is not legal
  bool good = false;
  // By rank, in the second step: what the run took, and what its plan says. Empty where the cell is not legal.
  std::vector<rank_use> used, planned;
};

/// Whether two runs have the same bits.
inline bool same(const trained& a, const trained& b) {
  return a.losses == b.losses && a.norms == b.norms && a.first == b.first && a.last == b.last &&
         a.skipped == b.skipped && a.same_bits == b.same_bits;
}

/// Runs a cell under launch_options.check, which finds nothing, and once more without it, which changes no bit, and
/// whose memory and traffic are those of the plan. `Serial` is the same model under a strategy for one rank; its runs
/// are kept.
template <class Model, class Serial, class Planned>
verdict run_cell(const degrees& mesh) {
  using P = typename Model::strategy::precision;
  static std::map<std::int64_t, trained> serial;
  verdict out;
  out.legal = legal(mesh);
  try {
    const std::int64_t rows = rows_for(mesh);
    const trained parallel = train<Model>(mesh, rows, true);
    if (!serial.count(rows)) serial[rows] = train<Serial>({}, rows);
    out.off = compare(serial[rows], parallel);
    out.good = out.legal && out.off.within(tolerance_of<P>);
    trained without = train<Model>(mesh, rows, false);
    if (!same(without, parallel)) out.good = false, out.refusal = "check changes numbers";
    out.used = std::move(without.second);
    out.planned = plan<Planned, typename Model::strategy>(mesh, rows);
    for (std::size_t r = 0; r < out.planned.size(); ++r)
      if (out.planned[r].report != out.used[r].report)
        out.good = false,
        out.refusal = "the plan says " + out.planned[r].report + ", and the run " + out.used[r].report;
  } catch (const failure& e) {
    out.refusal = e.what();
    out.good = !out.legal;
  }
  return out;
}

}  // namespace matrix
