// The training loop, erased: it knows of steps and numbers, not of models. Compiled once, not once a strategy. It gives
// the queue a step before it asks what became of the one before, where nobody has to know at once. Invariant: every
// rank takes the same decisions, since all that it decides on is the same number on every rank; and it waits, for its
// queue or for other ranks, nowhere but where it judges a step, validates, or takes statistics of the units.
#pragma once

#include <chrono>
#include <cmath>
#include <optional>

#include <weft/optim/decide_step.hpp>
#include <weft/train/memory_report.hpp>
#include <weft/train/metrics_log.hpp>
#include <weft/train/step_end.hpp>
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

/// result.json: why and how a run ended.
WEFT_LINKED void write_result(const training_result& r, const std::string& path) {
  json_writer w(1);
  w.begin_object().member("ended", r.ended).member("last_step", r.last_step).member("steps", r.steps);
  w.member("skipped", r.skipped);
  w.member("first_loss", r.first_loss).member("loss", r.loss);
  if (r.validation_loss >= 0) w.member("validation_loss", r.validation_loss);
  if (!r.metrics.empty()) {
    w.key("metrics").begin_object();
    for (const metric_value& m : r.metrics) w.member(m.name, m.value);
    w.end_object();
  }
  write_file(path, w.member("seconds", r.seconds).end_object().text() + '\n');
}

/// A step on its way to its end: given (its kernels are the queue's), ended (what this rank tells others of it is
/// posted), judged (the host has waited for both, and knows what became of it), told (to the log and the callbacks).
struct step_to_judge {
  step_report report;
  step_rule rule = {};
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  step_end end = {};
};

/// Invariant: steps are judged and told in their order, each once, and at most two are given and not judged: the
/// newest, and `before` it the one whose judgement may come late, which has ended. A turn of the loop gives the newest,
/// then judges and tells the one before; where that one wasn't taken, the newest wasn't either, and is given again. A
/// turn ends with its step ended, and judged and told too unless may_wait(); so nothing is under way where a
/// validation, a callback that has to know, or the end of the run follows. A run that several ranks are asked to stop
/// ends with the step that is given when they hear of it: the one whose end said so, or the one behind that.
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
  any_communicator to_all = ctx.world.host();
  step_message said[2] = {};  // of the steps of odd numbers, and of even ones
  std::int64_t updates = work.steps_before();
  // Those that take the same come first: g++ numbers lambdas through a function, and clang those of a type, and a
  // program of one may link a library of the other.
  const auto give = [&](step_to_judge& now) {
    step_report& r = now.report;
    const bool watched = watch.every > 0 && r.step % watch.every == 0;
    work.observe(watched);
    work.gradients(r.step);
    r.lr = lr * (plan.own_schedule ? plan.own_schedule(r.step - 1, plan.steps) : plan.schedule(r.step - 1, plan.steps));
    require(is_finite(r.lr) && r.lr >= 0, "the learning rate of step ", r.step, " is ", r.lr,
            "; own_schedule has to return a finite number, at least 0");
    if (watched) result.lost_files += write_statistics(statistics, r.step, work.statistics());
    now.rule = {updates + work.under_way() + 1, r.lr, plan.clip_norm};
    work.update(now.rule);
  };
  const auto end = [&](step_to_judge& now) { now.end.post(said[now.report.step % 2], to_all, ctx, plan.stop); };
  const auto judge = [&](step_to_judge& now) {  // here the host waits, for a step that it has given as a whole
    result.stopped = now.end.wait().stop || result.stopped;  // first: it lies behind what became of the step
    guard.judge(now.report, now.rule);
    updates += !now.report.skipped;
    const bool looked = watch.locate || watch.on_non_finite == non_finite::zero;  // which takes memory
    if (looked && !now.report.not_finite.empty()) end(now), now.end.wait();
  };
  const auto tell = [&](step_to_judge& now) {
    step_report& r = now.report;
    result.skipped += r.skipped, result.spikes += r.spike, result.zeroed += r.zeroed.total;
    result.not_finite += !r.not_finite.empty();
    result.steps = r.step - plan.begin, result.last_step = r.step;
    r.peak_bytes = now.end.said().peak_bytes;
    r.milliseconds = std::chrono::duration<double, std::milli>(clock::now() - now.begin).count();
    if (out) out->step(r);
    if (result.steps == 1) result.first_loss = r.loss;
    result.loss = r.loss;
  };
  const auto validate = [&](std::int64_t step) {
    const scoped_span whole(ctx.spans, "validation");
    const loss_sums s = work.validate();
    if (s.count == 0) {
      if (out && plan.validation_sequences > 0) out->no_validation(plan.seq);
      return;
    }
    result.validation_loss = s.sum / s.count;
    result.metrics = work.metrics();
    if (out) out->validation(step, result.validation_loss, result.metrics);
    for (training_callback* c : plan.callbacks) {
      c->after_validation(step, result.validation_loss);
      if (!result.metrics.empty()) c->after_metrics(step, result.metrics);
    }
  };
  const auto call_back = [&](const step_report& r) {
    for (training_callback* c : plan.callbacks)
      if (const std::string why = c->after_step(r); result.ended.empty()) result.ended = why;
  };
  const auto validates = [&](std::int64_t step) {
    return step == plan.steps || (plan.validate_every > 0 && step % plan.validate_every == 0);
  };
  // Whether the next step may be given before what this one came to is known.
  const auto may_wait = [&](std::int64_t step) {
    if (!work.runs_ahead() || !guard.calm() || result.stopped || !result.ended.empty() || validates(step) ||
        (watch.every > 0 && (step + 1) % watch.every == 0))
      return false;
    for (training_callback* c : plan.callbacks)
      if (!c->may_come_late(step)) return false;
    return true;
  };
  const auto start = clock::now();
  std::optional<step_to_judge> before;  // given, and nothing is known of it yet
  for (std::int64_t step = plan.begin + 1; step <= plan.steps; ++step) {
    step_to_judge now{.report = {.step = step, .steps = plan.steps}};
    tracer.before(step);
    bool waits = false;
    {
      const scoped_span whole(ctx.spans, "step", step);
      try {
        give(now);
      } catch (...) {
        // Perhaps on this rank alone: of several, what is told of the step before is what asks them nothing more. Where
        // that step fails too, its failure is told, as it would have been had it been asked first.
        if (before && ctx.size() == 1) judge(*before), tell(*before), call_back(before->report);
        if (before && ctx.size() > 1) {
          before->end.wait();
          if (guard.judge_good(before->report)) tell(*before), call_back(before->report);
        }
        throw;
      }
      if (before) {
        judge(*before);
        const bool in_vain = work.under_way() == 0;  // it wasn't taken, so this one was on other terms
        tell(*before), call_back(before->report);
        before.reset();
        now.begin = clock::now();
        if (in_vain) give(now);
      }
      end(now);
      waits = may_wait(step) && (ctx.size() > 1 || now.end.said().stop == 0);
      if (!waits) judge(now);
    }
    if (waits) {
      tracer.after(step);
      before.emplace(std::move(now));
      continue;
    }
    const bool last = step == plan.steps;
    result.stopped = result.stopped && !last;
    tell(now);
    if (last) result.ended = "its last step is done";
    if (result.stopped) result.ended = "it was asked to stop";
    if (!result.stopped && validates(step)) validate(step);
    call_back(now.report);
    if (!result.stopped) tracer.after(step);
    if (result.ended.empty()) continue;
    if (out && !last) out->last_line(now.report);
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
      detail::written([&] { write_file(plan.folder + "/error.txt", std::string(e.what()) + '\n'); },
                      "so no file says why the run ended");
    throw;
  }
}

}  // namespace weft
