// The training program for one strategy, a template: each of bf16.cpp and fp32.cpp makes half of them.
// A strategy costs the compiler half a second; a file costs fifteen, whatever is in it.
#pragma once

#include <weft/io/text_dataset.hpp>
#include <weft/train/generate.hpp>
#include <weft/train/keep_checkpoints.hpp>
#include <weft/train/trainer.hpp>
#include <weft/weft.hpp>

#include "report.hpp"
#include "strategies.hpp"

namespace train_llama {

template <class S>
int run_with(settings s) {
  const auto text = weft::open_corpus(s.data);
  weft::text_dataset::check(*text, s.held_out, s.plan.seq);
  const std::string from = s.resume.empty() ? "" : weft::newest_checkpoint(s.resume + "/checkpoints");
  return in_run_folder(s, [&] {
    begin_run(s, *text);
    weft::trace_log collectives(s.ranks);
    s.plan.trace.collectives = &collectives;
    int exit_code = 0;
    weft::launch<S>(s.degrees,
                    [&](weft::context& ctx) {
                      weft::llama<S> model(ctx, s.model);
                      const weft::text_dataset data(ctx, text, s.held_out);
                      weft::trainer training(ctx, model, s.optimizer);
                      if (!from.empty()) weft::load_checkpoint(ctx, training, from);
                      weft::training plan = s.plan;
                      plan.begin = training.state().batches;
                      std::optional<weft::keep_checkpoints<decltype(training)>> saves;
                      if (s.save_every > 0)
                        plan.callbacks.push_back(&saves.emplace(
                            ctx, training,
                            weft::checkpoint_rule{s.plan.folder + "/checkpoints", s.save_every, s.keep, s.keep_every}));
                      const weft::training_result result = training.run(data, plan);
                      const std::string sample = result.stopped ? "" : weft::generate(model, s.prompt, s.sample);
                      if (ctx.is_first()) exit_code = end_run(s, *text, result, ctx.memory.ledger(), sample);
                    },
                    {.seed = s.seed, .threads_per_rank = s.threads, .trace = &collectives});
    return exit_code;
  });
}

/// All strategies of one precision; of More, too.
template <class Precision, class... More>
std::vector<choice> strategies_of() {
  std::vector<choice> all;
  each_strategy<Precision, More...>([&]<class S>() { all.push_back({strategy_name<S>(), run_with<S>}); });
  return all;
}

}  // namespace train_llama
