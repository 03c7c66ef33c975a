// The training program for one strategy, a template: each of the four .cpp files beside it makes four of the sixteen.
#pragma once

#include <weft/io/text_dataset.hpp>
#include <weft/weft.hpp>
#include <weft/train/generate.hpp>
#include <weft/train/trainer.hpp>

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
void run_with(settings s) {
  const auto text = weft::open_corpus(s.data);
  weft::text_dataset::check(*text, s.held_out, s.plan.seq);
  begin_run(s, *text);
  weft::trace_log collectives(s.ranks);
  s.plan.trace.collectives = &collectives;
  weft::launch<S>(s.degrees, [&](weft::context& rank) {
    weft::llama<S> model(rank, s.model);
    const weft::text_dataset data(rank, text, s.held_out);
    const weft::training_result result = weft::trainer(rank, model, s.optimizer).run(data, s.plan);
    const std::string sample = weft::generate(model, s.prompt, s.sample);
    if (rank.is_first()) end_run(s, *text, result, rank.memory.ledger(), sample);
  }, {.seed = s.seed, .threads_per_rank = s.threads, .trace = &collectives});
}

/// The four strategies of one precision, with or without sequence parallelism.
template <class Precision, class... Sequence>
std::vector<choice> four_strategies() {
  using namespace weft;
  std::vector<choice> all;
  const auto add = [&]<class S>() { all.push_back({strategy_name<S>(), run_with<S>}); };
  using axes = mesh<dp, tp>;
  add.template operator()<strategy<axes, zero3, Precision, checkpoint_none, Sequence...>>();
  add.template operator()<strategy<axes, zero3, Precision, checkpoint_full, Sequence...>>();
  add.template operator()<strategy<axes, replicated, Precision, checkpoint_none, Sequence...>>();
  add.template operator()<strategy<axes, replicated, Precision, checkpoint_full, Sequence...>>();
  return all;
}

}  // namespace train_llama
