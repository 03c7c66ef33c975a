// The guard: what becomes of a step whose numbers are not finite, or that has no target, by the settings of
// `monitoring`. It looks once the step has been given to the queue, and perhaps the next one, whose kernels have then
// left the weights as they were (optim/decide_step.hpp). Invariant: it decides on numbers that every rank has alike.
#pragma once

#include <limits>

#include <weft/op/create.hpp>
#include <weft/train/loss_spikes.hpp>
#include <weft/train/trainable.hpp>

namespace weft {

/// Throws weft::failure when a setting has no meaning.
WEFT_LINKED void check(const monitoring& m) {
  require(m.every >= 0, "statistics of the units are taken every ", m.every,
          " steps; ask for 1 or more, or for 0 (none)");
  require(m.most_in_a_row >= 0, "most_in_a_row is ", m.most_in_a_row, "; it is a number of steps, or 0 (any number)");
  require(m.most_overflows >= 0, "most_overflows is ", m.most_overflows,
          "; it is a number of steps, or 0 (until the loss scale is at its lowest)");
  require(m.spike_deviations >= 0, "spike_deviations is ", m.spike_deviations,
          "; it is above 0, or 0 (no spikes are counted)");
  require(m.spike_window >= 2, "spike_window is ", m.spike_window, "; a deviation is taken over 2 losses or more");
}

/// The same of a whole plan.
WEFT_LINKED void check(const training& plan) {
  require(plan.steps >= 1, "a run of ", plan.steps, " steps trains nothing; ask for at least 1");
  require(plan.begin >= 0 && plan.begin < plan.steps, "the run goes on after step ", plan.begin, " of ", plan.steps,
          ", so there is no step left; ask for more steps");
  require(plan.print_every >= 1, "print_every is ", plan.print_every,
          "; it is a number of steps, at least 1; print = false prints none");
  require(plan.validate_every >= 0, "validate_every is ", plan.validate_every,
          "; it is a number of steps, or 0 (after the last only)");
  require(plan.validation_sequences >= 0, "validation_sequences is ", plan.validation_sequences,
          "; it is a number of sequences, or 0 (no validation)");
  require(plan.clip_norm >= 0 && plan.clip_norm - plan.clip_norm == 0, "clip_norm is ", plan.clip_norm,
          "; it has to be a finite number above 0, or 0 (no clipping)");
  for (const training_callback* c : plan.callbacks)
    require(c, "a callback of the run is null; give the addresses of callbacks, {&mine}");
  check(plan.schedule);
  check(plan.watch);
}

/// The same of where it begins and how a step's batch is cut, where so many ranks share it.
WEFT_LINKED void check(const training& plan, int shares) {
  require(plan.begin >= 0, "begin is ", plan.begin, "; it is how many of the steps an earlier run took, 0 or more");
  require(plan.seq >= 1, "seq is ", plan.seq,
          "; a sequence has at least 1 token, and 0 stands for the model's max_seq");
  require(plan.micro_batches >= 1, "micro_batches is ", plan.micro_batches, "; a step has at least 1");
  const std::int64_t parts = static_cast<std::int64_t>(plan.micro_batches) * shares;
  require(plan.batch >= 1, "batch is ", plan.batch, "; a step has at least 1 sequence, and here a multiple of ", parts);
  require(plan.batch % parts == 0, "a batch of ", plan.batch, " sequences doesn't divide into ", plan.micro_batches,
          " micro-batches on ", shares, " data-parallel ranks; choose a multiple of ", parts);
  require(plan.batch <= detail::most_elements / plan.seq, "a batch of ", plan.batch, " sequences of ", plan.seq,
          " tokens has more than 2^58 tokens; choose a smaller batch or seq");
  require(plan.validation_sequences / (plan.batch / plan.micro_batches) < std::numeric_limits<int>::max(),
          "validation_sequences is ", plan.validation_sequences, ", which makes more than 2^31 micro-batches of ",
          plan.batch / plan.micro_batches, "; choose fewer");
}

namespace detail {
/// Throws unless the trainer's model is there.
WEFT_LINKED void require_model(const watch& lives) {
  require(lives.alive(), "the trainer's model was destroyed: a model has to outlive its trainer");
}
/// Whether any stage has parameters that train: `trains` is how many this one has. All ranks call it.
WEFT_LINKED bool some_stage_trains(context& ctx, std::int64_t trains) {
  if (ctx.degree<pp>() > 1)
    ctx.world.host().all_reduce(&trains, &trains, 1, dtype::i64, reduction::max, {"whether it trains"}).wait();
  return trains != 0;
}
}  // namespace detail

class step_guard {
 public:
  step_guard(trainable& work, const monitoring& settings)
      : work_(work),
        settings_(settings),
        was_(work.watched()),
        spikes_(settings.spike_deviations, settings.spike_window, was_.losses) {}

  /// Fills in what became of a step that was given an update by `rule`: `r` comes back with its tokens, loss, norm,
  /// spike, and whether it was skipped. Where gradients that are not finite are to become zero, it is given another.
  /// Throws weft::failure naming the step when the settings say so.
  void judge(step_report& r, const step_rule& rule) {
    if (const step_outcome o = work_.outcome(); !good(r, o)) mend(r, rule, o);
  }
  /// The same where nobody can do anything about a bad step any more: false for one.
  bool judge_good(step_report& r) { return good(r, work_.outcome()); }
  /// Whether the last step that it judged was good, so that the next is expected to be.
  bool calm() const { return was_.in_a_row == 0 && was_.overflows == 0; }

 private:
  WEFT_LINKED bool good(step_report& r, const step_outcome& o) {
    r.tokens = static_cast<std::int64_t>(o.loss.count);
    r.loss = without_sign_of_nan(o.loss.sum / o.loss.count);
    r.gradient_norm = without_sign_of_nan(o.gradient_norm);
    r.spike = spikes_.saw(r.loss);
    was_.losses = spikes_.history();
    r.skipped = !o.taken;
    if (!o.taken) return false;
    if (may_overflow()) work_.accept(true);
    was_.in_a_row = was_.overflows = 0;
    return true;
  }
  // NaNs of one backend have a sign, of another none; a report shows both alike.
  static double without_sign_of_nan(double x) {
    return detail::is_nan(x) ? std::numeric_limits<double>::quiet_NaN() : x;
  }
  bool may_overflow() const { return settings_.most_overflows == 0 || was_.overflows < settings_.most_overflows; }

  WEFT_LINKED void mend(step_report& r, const step_rule& rule, step_outcome o) {
    const bool learns = o.loss.count > 0;
    const bool scored = learns && detail::is_finite(r.loss), finite = detail::is_finite(r.gradient_norm);
    if (scored && may_overflow() && !work_.accept(finite)) {
      ++was_.overflows;
      return;
    }
    require(!scored || !finite, "the gradients of step ", r.step, ", whose norm is ", r.gradient_norm,
            ", can't be divided by its ", o.loss.count, " tokens; check the loss's count");
    if (!learns)
      r.not_finite = detail::text("no token of step ", r.step, " has a target, so there is nothing to learn from");
    else
      r.not_finite =
          scored ? sentence("the gradient norm", r.gradient_norm, r.step) : sentence("the loss", r.loss, r.step);
    if (scored && was_.overflows > 0) {
      char scale[32];
      std::snprintf(scale, sizeof scale, "%g", work_.loss_scale());
      r.not_finite += detail::text(", though the loss scale was halved in each of the ", was_.overflows,
                                   " steps before it, down to ", scale, ": no scale mends that");
    }
    const char* const advice = learns ? "lower the learning rate, lengthen the warm-up or check the data"
                               : settings_.on_non_finite == non_finite::stop
                                   ? "check the data, or have such steps skipped (on_non_finite: skip)"
                                   : "check the data";
    require(settings_.on_non_finite != non_finite::stop, r.not_finite, "; training stops there: ", advice);
    const int most = settings_.most_in_a_row;
    require(most == 0 || was_.in_a_row < most, r.not_finite, "; the ", was_.in_a_row,
            " steps before it were no better, so training stops there: ", advice, ", or raise most_in_a_row");
    ++was_.in_a_row;
    if (scored && settings_.on_non_finite == non_finite::zero) {
      r.zeroed = work_.zero_not_finite();
      work_.update(rule);
      o = work_.outcome();
      r.gradient_norm = without_sign_of_nan(o.gradient_norm);
      r.skipped = !o.taken;
    }
  }
  WEFT_LINKED std::string sentence(const char* what, double number, std::int64_t step) {
    const std::string where = settings_.locate ? work_.locate(step) : "";
    return std::string(what) + " of step " + std::to_string(step) + " is " +
           (detail::is_nan(number) ? "not a number" : "infinite") + (where.empty() ? "" : ", ") + where;
  }

  trainable& work_;
  const monitoring& settings_;
  watch_state& was_;
  loss_spikes spikes_;
};

}  // namespace weft
