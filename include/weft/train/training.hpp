// What a training run is told, and what it says of each step. Plain data.
// Invariant: counts are global (over all ranks and micro-batches) unless their name says otherwise.
#pragma once

#include <cstdint>
#include <string>

#include <weft/comm/trace_log.hpp>
#include <weft/optim/schedule.hpp>
#include <weft/parallel/loss_sums.hpp>

namespace weft {

/// Which steps, counted from 1, a trace shows. `collectives`: the log that the ranks were launched with, if any.
struct trace_window {
  std::int64_t first = 3, last = 5;
  trace_log* collectives = nullptr;
};

struct training {
  std::int64_t steps = 100;
  std::int64_t batch = 8;       // sequences a step
  int micro_batches = 1;        // parts that a step's batch is computed in, one after another (gradient accumulation)
  std::int64_t seq = 0;         // tokens a sequence; 0: the model's max_seq
  warmup_cosine schedule = {};  // multiplies the optimizer's lr
  std::int64_t validate_every = 0;        // steps; 0: only after the last
  std::int64_t validation_sequences = 16;  // rounded up to whole micro-batches; 0: no validation
  bool print = true;            // a line a step on stdout, by the first rank
  std::string folder = {};      // where metrics.jsonl, memory.json and trace.json go; it exists; empty: no files
  trace_window trace = {};
};

struct step_report {
  std::int64_t step = 0, steps = 0;  // from 1
  double loss = 0;           // mean over the step's tokens, nats
  double gradient_norm = 0;  // of the mean loss, before clipping
  double lr = 0;
  bool skipped = false;      // its gradients overflowed under the loss scale, which was halved
  double milliseconds = 0;
  std::int64_t tokens = 0;   // that the loss was taken over
  std::int64_t peak_bytes = 0;  // of the rank that held most, since the run began
  double tokens_per_second() const { return milliseconds > 0 ? 1000.0 * static_cast<double>(tokens) / milliseconds : 0; }
};

struct training_result {
  std::int64_t steps = 0, skipped = 0;
  double first_loss = 0, loss = 0;  // of the first and of the last step
  double validation_loss = -1;      // mean over the held-out tokens; -1: none was taken
  double seconds = 0;
};

}  // namespace weft
