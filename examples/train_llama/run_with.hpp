// The training program for one strategy, a template: each of bf16.cpp and fp32.cpp makes half of them.
// A strategy costs the compiler half a second; a file costs fifteen, whatever is in it.
#pragma once

#include <weft/io/text_dataset.hpp>
#include <weft/train/generate.hpp>
#include <weft/train/trainer.hpp>
#include <weft/weft.hpp>

#include "report.hpp"

namespace train_llama {

template <class S>
std::string strategy_name() {
  settings s;
  s.sharding = S::sharding::name, s.precision = S::precision::name, s.checkpointing = S::checkpointing::name;
  s.sequence_parallel = S::sequence_parallel;
  return name_of(s);
}

template <class S>
int run_with(settings s) {
  const auto text = weft::open_corpus(s.data);
  weft::text_dataset::check(*text, s.held_out, s.plan.seq);
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
                      const weft::training_result result = training.run(data, s.plan);
                      if (ctx.is_first()) end_training();
                      const std::string sample = result.stopped ? "" : weft::generate(model, s.prompt, s.sample);
                      if (ctx.is_first()) exit_code = end_run(s, *text, result, ctx.memory.ledger(), sample);
                    },
                    {.seed = s.seed, .threads_per_rank = s.threads, .trace = &collectives});
    return exit_code;
  });
}

/// All strategies of one precision.
template <class Precision>
std::vector<choice> strategies_of() {
  using namespace weft;
  std::vector<choice> all;
  const auto add = [&]<class Sharding, class Checkpointing, class... Sequence>() {
    using S = strategy<mesh<dp, pp, tp>, Sharding, Precision, Checkpointing, Sequence...>;
    all.push_back({strategy_name<S>(), run_with<S>});
  };
  const auto with = [&]<class Sharding>() {
    add.template operator()<Sharding, checkpoint_none>();
    add.template operator()<Sharding, checkpoint_none, sequence_parallel>();
    add.template operator()<Sharding, checkpoint_selective>();
    add.template operator()<Sharding, checkpoint_selective, sequence_parallel>();
    add.template operator()<Sharding, checkpoint_full>();
    add.template operator()<Sharding, checkpoint_full, sequence_parallel>();
  };
  with.template operator()<zero3>();
  with.template operator()<zero2>();
  with.template operator()<zero1>();
  with.template operator()<replicated>();
  return all;
}

}  // namespace train_llama
