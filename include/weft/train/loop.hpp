// The training loop, erased: it knows of steps and numbers, not of models. Compiled once, not once a strategy.
// Invariant: every rank takes the same decisions, since all that it decides on is the same number on every rank.
#pragma once

#include <chrono>
#include <cmath>
#include <optional>

#include <weft/optim/decide_step.hpp>
#include <weft/train/memory_report.hpp>
#include <weft/train/metrics_log.hpp>
#include <weft/train/step_guard.hpp>
#include <weft/train/trace_writer.hpp>

namespace weft {

namespace detail {

/// monitor.jsonl: a line a unit. The first rank writes. Returns how many files were given up: 1 when the disk is full.
WEFT_LINKED int write_statistics(std::optional<json_lines>& file, std::int64_t step,
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
WEFT_LINKED step_end end_step(context& ctx, const std::atomic<bool>* stop) {
  std::int64_t both[2] = {static_cast<std::int64_t>(ctx.memory.ledger().peak_total), stop && *stop};
  ctx.world.host().all_reduce(both, both, 2, dtype::i64, reduction::max, {"peak memory"}).wait();
  return {both[0], both[1]};
}

/// result.json: why and how a run ended.
WEFT_LINKED void write_result(const training_result& r, const std::string& path) {
  json_writer w(1);
  w.begin_object().member("ended", r.ended).member("last_step", r.last_step).member("steps", r.steps);
  w.member("skipped", r.skipped);
  w.member("first_loss", r.first_loss).member("loss", r.loss);
  if (r.validation_loss >= 0) w.member("validation_loss", r.validation_loss);
  write_file(path, w.member("seconds", r.seconds).end_object().text() + '\n');
}

WEFT_LINKED training_result run_steps(context& ctx, trainable& work, const training& plan, double lr) {
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
  (ctx.spans ? *ctx.spans : tracer.log()).units = work.unit_names();

  training_result result;
  const auto validate = [&](std::int64_t step) {
    const scoped_span whole(ctx.spans, "validation");
    const loss_sums s = work.validate();
    if (s.count == 0) {
      if (out && plan.validation_sequences > 0) out->no_validation(plan.seq);
      return;
    }
    result.validation_loss = s.sum / s.count;
    if (out) out->validation(step, result.validation_loss);
    for (training_callback* c : plan.callbacks) c->after_validation(step, result.validation_loss);
  };
  std::int64_t updates = work.steps_before();
  const auto start = clock::now();
  for (std::int64_t step = plan.begin + 1; step <= plan.steps; ++step) {
    const auto begin = clock::now();
    tracer.before(step);
    step_report r{.step = step, .steps = plan.steps};
    {
      const scoped_span whole(ctx.spans, "step", step);
      const bool watched = watch.every > 0 && step % watch.every == 0;
      work.observe(watched);
      work.gradients(step);
      r.lr = lr * (plan.own_schedule ? plan.own_schedule(step - 1, plan.steps) : plan.schedule(step - 1, plan.steps));
      require(is_finite(r.lr) && r.lr >= 0, "the learning rate of step ", step, " is ", r.lr,
              "; own_schedule has to return a finite number, at least 0");
      if (watched) result.lost_files += write_statistics(statistics, step, work.statistics());
      const step_rule rule{updates + 1, r.lr, plan.clip_norm};
      work.update(rule);
      guard.judge(r, rule);  // here the host waits, for a step that has been given to the queue as a whole
      updates += !r.skipped;
    }
    result.skipped += r.skipped, result.spikes += r.spike, result.zeroed += r.zeroed.total;
    result.not_finite += !r.not_finite.empty();
    const step_end end = end_step(ctx, plan.stop);
    result.steps = step - plan.begin, result.last_step = step;
    result.stopped = end.stop && step < plan.steps;
    r.peak_bytes = end.peak_bytes;
    r.milliseconds = std::chrono::duration<double, std::milli>(clock::now() - begin).count();
    if (out) out->step(r);
    if (step == plan.begin + 1) result.first_loss = r.loss;
    result.loss = r.loss;
    const bool last = step == plan.steps;
    if (last) result.ended = "its last step is done";
    if (result.stopped) result.ended = "it was asked to stop";
    if (!result.stopped && (last || (plan.validate_every > 0 && step % plan.validate_every == 0))) validate(step);
    for (training_callback* c : plan.callbacks)
      if (const std::string why = c->after_step(r); result.ended.empty()) result.ended = why;
    if (!result.stopped) tracer.after(step);
    if (result.ended.empty()) continue;
    if (out && !last) out->last_line(r);
    break;
  }
  for (training_callback* c : plan.callbacks) c->after_run(result);
  if (out) result.lost_files += out->lost_files();
  out.reset();
  result.seconds = std::chrono::duration<double>(clock::now() - start).count();
  if (!folder.empty()) {
    const auto lost = [&](auto write) { result.lost_files += !written(write); };
    lost([&] { write_memory_report(ctx, folder + "memory.json"); });
    lost([&] { write_trace(ctx, tracer.log(), tracer.collectives(), folder + "trace.json"); });
    if (ctx.is_first()) lost([&] { write_result(result, folder + "result.json"); });
  }
  return result;
}

}  // namespace detail

/// Runs `plan.steps` steps at a learning rate of `lr` times the schedule. All ranks call it. Throws weft::failure
/// naming the step when a loss or norm is not finite, unless plan.watch says otherwise; error.txt in the run's folder
/// says what was thrown.
WEFT_LINKED training_result train_loop(context& ctx, trainable& work, const training& plan, double lr) {
  try {
    return detail::run_steps(ctx, work, plan, lr);
  } catch (const std::exception& e) {
    if (ctx.is_first() && !plan.folder.empty())
      detail::written([&] { write_file(plan.folder + "/error.txt", std::string(e.what()) + '\n'); });
    throw;
  }
}

}  // namespace weft
