// What a training run is told, and what it says of each step. Plain data.
// Invariant: counts are global (over all ranks and micro-batches) unless their name says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <weft/comm/trace_log.hpp>
#include <weft/optim/schedule.hpp>
#include <weft/parallel/loss_sums.hpp>

namespace weft {

/// Which steps, counted from 1, a trace shows. `collectives`: the log that the ranks were launched with, if any.
struct trace_window {
  std::int64_t first = 3, last = 5;
  trace_log* collectives = nullptr;
};

/// What becomes of a step whose loss or gradients are not finite, or in which no token has a target. (Overflows under a
/// dynamic loss scale are not meant, as long as a lower scale may mend them: those halve the scale and skip the step.)
enum class non_finite : std::uint8_t {
  stop,  // the run ends with an error
  skip,  // the step is not taken
  zero,  // gradient elements that are not finite become 0 and the step is taken; as skip where the loss isn't either
};
constexpr const char* non_finite_names[] = {"stop", "skip", "zero"};

/// What a run keeps an eye on.
struct monitoring {
  std::int64_t every = 0;  // steps between statistics of every unit, to monitor.jsonl in the run's folder; 0: none
  non_finite on_non_finite = non_finite::stop;
  int most_in_a_row = 10;   // bad steps that skip and zero bear one after another, before they stop too; 0: any number
  int most_overflows = 20;  // steps in a row that a dynamic loss scale skips, before the next counts as a bad one; 0:
                            // as many as there are lower scales
  bool locate = true;       // compute a bad step once more, to name the first unit where it goes wrong
  double spike_deviations = 6;  // standard deviations above the mean of the losses before; 0: no spikes are counted
  int spike_window = 50;        // losses that mean and deviation remember, and that go by before the first spike
};

class training_callback;

/// What a trainer's run is told.
struct training {
  std::int64_t steps = 100;
  std::int64_t begin = 0;       // of those steps, how many an earlier run took: this one goes on with the next
  std::int64_t batch = 8;       // sequences a step
  int micro_batches = 1;        // parts that a step's batch is computed in, one after another (gradient accumulation)
  std::int64_t seq = 0;         // tokens a sequence; 0: the model's max_seq
  warmup_cosine schedule = {};  // multiplies the optimizer's lr
  /// A schedule of one's own, in its place: the factor at a step, which counts from 0, of so many.
  double (*own_schedule)(std::int64_t step, std::int64_t steps) = nullptr;
  double clip_norm = 1.0;                  // gradients are scaled down where their global norm is above it; 0: never
  std::int64_t validate_every = 0;         // steps; 0: only after the last
  std::int64_t validation_sequences = 16;  // rounded up to whole micro-batches; 0: no validation
  bool print = true;                       // lines of steps on stdout, by the first rank
  std::int64_t print_every = 1;            // steps from line to line; the first, the last and unusual ones have theirs
  std::string folder =
      {};  // where metrics.jsonl, memory.json, trace.json and result.json go; it exists; empty: no files
  trace_window trace = {};
  monitoring watch = {};
  /// Once it is true on any rank, by a signal's handler say, the run ends after the running step, or, of several ranks
  /// whose queues run behind their hosts, after the one that was given behind it: without validation, and otherwise as
  /// a whole run does.
  const std::atomic<bool>* stop = nullptr;
  std::vector<training_callback*> callbacks = {};  // called in this order; they outlive the run
  /// From the third step on each goes to the device as one CUDA graph, whose kernels follow each other without the
  /// host: the same bits. For a backend whose queue has graphs (cuda_backend), on one rank or over a communicator whose
  /// operations join them (nccl_mpi); anything else is refused.
  bool step_graph = false;
};

/// Gradient elements that were set to zero, over all ranks.
struct zeroed_elements {
  std::int64_t total = 0;
  std::vector<std::pair<std::string, std::int64_t>> units;  // those with any; on the first rank alone
};

/// What is known of a step once it is over.
struct step_report {
  std::int64_t step = 0, steps = 0;  // from 1
  double loss = 0;                   // mean over the step's tokens, nats
  double gradient_norm = 0;          // of the mean loss, before clipping
  double lr = 0;
  bool skipped = false;  // the weights stayed as they were: overflow under the loss scale, or what not_finite tells
  bool spike = false;    // the loss jumped, by the settings of `monitoring`
  std::string not_finite = {};  // which number was not finite, and where first, or that there was no target; or empty
  zeroed_elements zeroed = {};  // of its gradients
  double milliseconds = 0;      // from when the host heard of the step before, or gave this one, to when it heard of it
  std::int64_t tokens = 0;      // that the loss was taken over
  std::int64_t peak_bytes = 0;  // of the rank that held most, since the run began
  double tokens_per_second() const {
    return milliseconds > 0 ? 1000.0 * static_cast<double>(tokens) / milliseconds : 0;
  }
};

/// What a run did, over all ranks.
struct training_result {
  std::int64_t steps = 0, skipped = 0;  // those that were run
  std::int64_t last_step = 0;           // training.begin included
  bool stopped = false;                 // by training.stop, before the plan's last step
  std::string ended = {};               // why: "its last step is done", "it was asked to stop", or what a callback said
  std::int64_t spikes = 0;              // losses that jumped
  std::int64_t not_finite = 0;          // steps without a target, or whose loss or gradients were not finite, but for
                                        // overflows under a loss scale
  std::int64_t zeroed = 0;              // gradient elements set to zero in them
  double first_loss = 0, loss = 0;      // of the first and of the last step
  double validation_loss = -1;          // mean over the held-out tokens; -1: none was taken
  std::vector<metric_value> metrics = {};  // of the same tokens: a trainer's metric_list
  double seconds = 0;
  int lost_files = 0;  // of the run's folder: those that the disk didn't take; on the first rank alone
};

/// What of one's own a run does between its steps: metrics, checkpoints, an end that comes early. All ranks call each
/// of these, in the same order and with the same numbers (but for what step_report and training_result say are the
/// first rank's), so a callback may call collectives; what it returns has to be the same on every rank.
class training_callback {
 public:
  virtual ~training_callback() = default;
  /// After a validation: the mean loss over the held-out tokens.
  virtual void after_validation(std::int64_t /*step*/, double /*loss*/) {}
  /// Right behind it, where the trainer has metrics: those of the same tokens, in its list's order.
  virtual void after_metrics(std::int64_t /*step*/, const std::vector<metric_value>& /*metrics*/) {}
  /// After a step, and its validation where it has one. Returns why the run is to end with it, or nothing.
  virtual std::string after_step(const step_report&) { return {}; }
  /// Whether after_step(step) may come once the next step was given to the device, which then needn't wait for it. True
  /// of one that looks at its report alone, calls no collectives, and ends no run (a reason that it returns ends it a
  /// step later). Asked on every rank, which answer alike, after `step` was given; a trainer's state() is then of the
  /// step before it.
  virtual bool may_come_late(std::int64_t /*step*/) { return false; }
  /// When the run has ended, otherwise than by an exception.
  virtual void after_run(const training_result&) {}
};

}  // namespace weft
