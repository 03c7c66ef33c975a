// The training loop, erased: it knows of steps and numbers, not of models. Compiled once, not once a strategy.
// Invariant: every rank takes the same decisions, since all that it decides on is the same number on every rank.
#pragma once

#include <chrono>
#include <cmath>
#include <optional>

#include <weft/optim/adamw.hpp>
#include <weft/train/memory_report.hpp>
#include <weft/train/metrics_log.hpp>
#include <weft/train/step_guard.hpp>
#include <weft/train/trace_writer.hpp>

namespace weft {

namespace detail {

/// What gradients that are sums over `count` tokens are multiplied by: to the mean, and down to clip_norm.
inline double gradient_scale(double norm_of_mean, double count, double clip_norm) {
  return clip_factor(norm_of_mean, clip_norm) / count;
}

/// monitor.jsonl: a line a unit. The first rank writes. Returns how many files were given up: 1 when the disk is full.
inline int write_statistics(std::optional<json_lines>& file, std::int64_t step,
                            const std::vector<unit_statistics>& units) {
  if (!file || written([&] {
        for (const unit_statistics& u : units) file->write(statistics_json(step, u));
      }))
    return 0;
  file.reset();
  return 1;
}

/// What ranks tell each other when a step ends.
struct step_end {
  std::int64_t peak_bytes;  // of the rank that held most
  std::int64_t stop;        // 1: some rank was asked to stop
};
inline step_end end_step(context& ctx, const std::atomic<bool>* stop) {
  std::int64_t both[2] = {static_cast<std::int64_t>(ctx.memory.ledger().peak_total), stop && *stop};
  ctx.world.all_reduce(both, both, 2, dtype::i64, reduction::max, {"peak memory"}).wait();
  return {both[0], both[1]};
}

}  // namespace detail

/// Runs `plan.steps` steps at a learning rate of `lr` times the schedule. All ranks call it. Throws weft::failure
/// naming the step when a loss or norm is not finite, unless plan.watch says otherwise.
inline training_result train_loop(context& ctx, trainable& work, const training& plan, double lr) {
  using clock = std::chrono::steady_clock;
  check(plan);
  const std::string folder = plan.folder.empty() ? "" : plan.folder + '/';
  const monitoring& watch = plan.watch;
  require(watch.every == 0 || !folder.empty(), "statistics of the units every ", watch.every,
          " steps have nowhere to go; give the run a folder");
  std::optional<metrics_log> out;
  std::optional<json_lines> statistics;
  if (ctx.is_first() && (plan.print || !folder.empty())) {
    out.emplace(plan.print ? plan.print_every : 0, plan.folder);
    if (watch.every > 0) statistics.emplace(plan.folder, "monitor.jsonl");
  }
  step_guard guard(work, watch);
  step_tracer tracer(ctx, plan.trace, !folder.empty());
  tracer.log().units = work.unit_names();

  training_result result;
  const auto validate = [&](std::int64_t step) {
    const scoped_span whole(ctx.spans, "validation");
    const loss_sums s = work.validate();
    if (s.count == 0) return;
    result.validation_loss = s.sum / s.count;
    if (out) out->validation(step, result.validation_loss);
  };
  std::int64_t updates = work.steps_before();
  const auto start = clock::now();
  for (std::int64_t step = 1; step <= plan.steps; ++step) {
    const auto begin = clock::now();
    tracer.before(step);
    step_report r{.step = step, .steps = plan.steps};
    {
      const scoped_span whole(ctx.spans, "step", step);
      const bool watched = watch.every > 0 && step % watch.every == 0;
      work.observe(watched);
      const loss_sums s = work.gradients(step);
      require(s.count > 0, "no token of step ", step,
              " has a target, so there is nothing to learn from; check the data");
      r.tokens = static_cast<std::int64_t>(s.count);
      r.loss = s.sum / s.count;
      r.gradient_norm = work.gradient_norm() / s.count;
      r.lr = lr * (plan.own_schedule ? plan.own_schedule(step - 1, plan.steps) : plan.schedule(step - 1, plan.steps));
      require(detail::is_finite(r.lr) && r.lr >= 0, "the learning rate of step ", step, " is ", r.lr,
              "; own_schedule has to return a finite number, at least 0");
      if (watched) result.lost_files += detail::write_statistics(statistics, step, work.statistics(1 / s.count));
      if (guard.allows(r, s.count)) {
        const scoped_span update(ctx.spans, "optimizer");
        work.update({++updates, r.lr, detail::gradient_scale(r.gradient_norm, s.count, plan.clip_norm)});
      }
    }
    result.skipped += r.skipped, result.spikes += r.spike, result.zeroed += r.zeroed.total;
    result.not_finite += !r.not_finite.empty();
    const detail::step_end end = detail::end_step(ctx, plan.stop);
    result.steps = step;
    result.stopped = end.stop && step < plan.steps;
    r.peak_bytes = end.peak_bytes;
    r.milliseconds = std::chrono::duration<double, std::milli>(clock::now() - begin).count();
    if (out) out->step(r);
    if (step == 1) result.first_loss = r.loss;
    result.loss = r.loss;
    if (result.stopped) {
      if (out) out->last_line(r);
      break;
    }
    if (step == plan.steps || (plan.validate_every > 0 && step % plan.validate_every == 0)) validate(step);
    tracer.after(step);
  }
  if (out) result.lost_files += out->lost_files();
  out.reset();
  result.seconds = std::chrono::duration<double>(clock::now() - start).count();
  if (!folder.empty()) {
    const auto lost = [&](auto write) { result.lost_files += !detail::written(write); };
    lost([&] { write_memory_report(ctx, folder + "memory.json", work.scratch_bytes()); });
    lost([&] { write_trace(ctx, tracer.log(), tracer.collectives(), folder + "trace.json"); });
  }
  return result;
}

}  // namespace weft
