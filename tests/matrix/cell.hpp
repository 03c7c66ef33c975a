// One cell: trains a model under a strategy on a mesh, through the trainer, and compares with one rank in the same
// precision. Invariant: what is compared are numbers by global index, so that nothing of the sharding is in them.
#pragma once

#include <cmath>
#include <map>
#include <mutex>

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

using gradients = std::map<std::string, std::vector<double>>;
struct trained {
  std::vector<double> losses, norms;
  gradients first, last;
  int skipped = 0;        // steps that overflowed under the loss scale, and were taken again under half of it
  bool same_bits = true;  // on ranks that hold the same elements, and zeros in padding
};

template <class Model>
trained train(const degrees& mesh, std::int64_t rows, bool check = false) {
  using S = typename Model::strategy;
  trained out;
  std::mutex lock;
  launch<S>(mesh,
            [&](context& ctx) {
              const auto config = config_for(static_cast<const Model*>(nullptr));
              Model model(ctx, config);
              trainer t(ctx, model, {.lr = 1e-3});
              const rows_of_numbers data{config.vocab, &ctx};
              const double count = static_cast<double>(data.count(rows * micro_batches));
              double scale =
                  initial_loss_scale<typename S::precision> > 0 ? initial_loss_scale<typename S::precision> : 1;
              for (int step = 1; step <= steps; ++step) {
                training_result r;
                for (int attempt = 0; attempt == 0 || r.skipped != 0; ++attempt) {
                  r = t.run(data, {.steps = 1,
                                   .batch = rows * micro_batches,
                                   .micro_batches = micro_batches,
                                   .schedule = {.floor = 1},
                                   .validation_sequences = 0,
                                   .print = false});
                  require(attempt < 40, "no loss scale fits");
                  if (r.skipped != 0) scale /= 2;
                  if (ctx.is_first()) out.skipped += static_cast<int>(r.skipped);
                }
                const double divisor = count * scale;
                const double norm = t.store().gradient_norm() / divisor;
                if (ctx.is_first()) out.losses.push_back(r.loss), out.norms.push_back(norm);
                if (step != 1 && step != steps) continue;
                t.store().each_parameter([&](const parameter_record& p, const auto* gradient, const auto* weight) {
                  const std::lock_guard guard(lock);
                  auto& all = (step == 1 ? out.first : out.last)[p.name];
                  all.resize(static_cast<std::size_t>(p.global.elements()), NAN);
                  for (std::int64_t i = 0; i < p.local.elements(); ++i) {
                    const std::int64_t index = detail::global_index(p, i);
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
            {.check = check});
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
};

/// Whether two runs have the same bits.
inline bool same(const trained& a, const trained& b) {
  return a.losses == b.losses && a.norms == b.norms && a.first == b.first && a.last == b.last &&
         a.skipped == b.skipped && a.same_bits == b.same_bits;
}

/// Runs a cell. check: once more with launch_options.check, which finds nothing and changes nothing. `Serial` is the
/// same model under a strategy for one rank; its runs are kept.
template <class Model, class Serial>
verdict run_cell(const degrees& mesh, bool check) {
  using P = typename Model::strategy::precision;
  static std::map<std::int64_t, trained> serial;
  verdict out;
  out.legal = legal(mesh);
  try {
    const std::int64_t rows = rows_for(mesh);
    const trained parallel = train<Model>(mesh, rows);
    if (!serial.count(rows)) serial[rows] = train<Serial>({}, rows);
    out.off = compare(serial[rows], parallel);
    out.good = out.legal && out.off.within(tolerance_of<P>);
    if (check && !same(train<Model>(mesh, rows, true), parallel))
      out.good = false, out.refusal = "check changes numbers";
  } catch (const failure& e) {
    out.refusal = e.what();
    out.good = !out.legal;
  }
  return out;
}

}  // namespace matrix
