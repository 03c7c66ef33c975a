// Training with the heap watched. Invariant: the window reaches from the first thing that step 3 does on any rank, to
// the last thing that step 6 does on any rank: gradients, their norm, the update, and the loop around them.
#pragma once

#include <atomic>
#include <barrier>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include <weft/train/trainer.hpp>
#include <weft/weft.hpp>

#include "allocation/heap.hpp"

namespace weft_test {

struct taken_in_window {
  long heap = 0;                    // calls of operator new, on any thread
  std::atomic<long> chunks{0};      // that the ranks' arenas took from the system
  std::atomic<long> kept_bytes{0};  // what the ranks' arenas hold more at its end than at its beginning
};

/// A text whose reader opens the window, all ranks being there, and ends it. `extra`: allocations that each read makes.
class watched_text {
 public:
  static constexpr std::int64_t begin = 3, end = 7;

  watched_text(weft::context& ctx, std::barrier<>& all, taken_in_window& taken, int extra)
      : ctx_(ctx), text_(ctx, corpus()), all_(all), taken_(taken), extra_(extra) {}

  template <weft::any_tensor Ids>
  weft::token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t length) const {
    // Once a step, though a rank reads a micro-batch once for each of its chunks.
    if (first == 0 && (step == begin || step == end) && std::exchange(turned_, step) != step) turn(step == begin);
    for (int i = 0; i < extra_; ++i) look_at(std::make_unique<int>(i).get());
    return text_.train<Ids>(step, first, count, length);
  }
  bool can_validate(std::int64_t) const { return false; }
  template <weft::any_tensor Ids>
  weft::token_batch<Ids> validation(std::int64_t first, std::int64_t count, std::int64_t length) const {
    return text_.validation<Ids>(first, count, length);
  }

 private:
  static std::shared_ptr<const weft::text_corpus> corpus() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "one two three four five, once I caught a fish alive; ";
    return std::make_shared<const weft::text_corpus>("rhyme", text);
  }
  void turn(bool on) const {
    const long sign = on ? -1 : 1;
    taken_.chunks += sign * ctx_.memory.ledger().chunks;
    taken_.kept_bytes += sign * static_cast<long>(ctx_.memory.ledger().total);
    all_.arrive_and_wait();
    if (ctx_.is_first()) heap_counter::on = on;
    all_.arrive_and_wait();
  }

  weft::context& ctx_;
  weft::text_dataset text_;
  std::barrier<>& all_;
  taken_in_window& taken_;
  int extra_;
  mutable std::int64_t turned_ = 0;  // the step of the last turn
};

/// Trains a Model for seven steps of two micro-batches and fills in what was taken in steps 3 to 6.
template <class Model, class Config>
void train_watched(taken_in_window& taken, weft::degrees ranks, const Config& config, int threads = 1, int extra = 0) {
  std::barrier<> all(static_cast<std::ptrdiff_t>(ranks.product()));
  heap_counter::taken = 0;
  weft::launch<typename Model::strategy>(
      ranks,
      [&](weft::context& ctx) {
        Model model(ctx, config);
        weft::trainer training(ctx, model, {.lr = 1e-3});
        const watched_text text(ctx, all, taken, extra);
        training.run(
            text,
            {.steps = watched_text::end, .batch = 8, .micro_batches = 2, .validation_sequences = 0, .print = false});
      },
      {.threads_per_rank = threads, .check = false});  // which keeps sentences and hashes on the heap
  taken.heap = heap_counter::taken;
}

template <class Model, class Config>
void check_takes_nothing(weft::degrees ranks, const Config& config, int threads = 1) {
  taken_in_window taken;
  train_watched<Model>(taken, ranks, config, threads);
  CHECK(taken.heap == 0);
  CHECK(taken.chunks == 0);
  CHECK(taken.kept_bytes == 0);
}

}  // namespace weft_test
