// The plan of a training run: the trainer's own steps, on a rank that computes nothing.
#pragma once

#include <weft/plan/rank.hpp>
#include <weft/train/trainer.hpp>

namespace weft {

namespace detail {
inline constexpr auto nothing_first = [](context&) {};
}  // namespace detail

/// What rank `rank` of a training run holds and moves: its memory from the start to the end of a second step, and that
/// step's collectives. Model<S> is made of (context&, config), as llama and gpt2 are; `plan` says the batch, the
/// optimizer what is kept, `options` the threads of a rank, and `prepare(ctx)` does what the run does with its context
/// before the model is made: ctx.keep_optimizer_state_in, say. Batches are of text, as text_dataset's. Validation,
/// files and statistics are not part of it. Throws weft::failure where the run itself would, by its sizes.
template <template <class> class Model, class S, class Config, any_optimizer Optimizer = adamw>
rank_plan plan_training(const Config& config, const degrees& wanted, training plan, int rank = 0,
                        const Optimizer& optimizer = {}, const launch_options& options = {},
                        function_ref<void(context&)> prepare = detail::nothing_first) {
  planned_rank<S> one(wanted, rank, options);
  prepare(one.ctx());
  Model<planned<S>> model(one.ctx(), config);
  trainer run(one.ctx(), model, optimizer);
  if constexpr (requires { model.config().max_seq; })
    if (plan.seq == 0) plan.seq = model.config().max_seq;
  require(plan.seq >= 1, "seq is ", plan.seq,
          "; a sequence has at least 1 token, and 0 stands for the model's max_seq");
  const std::string words(static_cast<std::size_t>(plan.seq) + 2, ' ');
  const text_dataset data(one.ctx(), std::make_shared<text_corpus>("a plan", words), 0);
  plan.steps = 1, plan.validation_sequences = 0, plan.print = false, plan.folder.clear();
  plan.watch = {}, plan.trace = {}, plan.stop = nullptr, plan.step_graph = false;
  run.run(data, plan);
  one.forget_collectives();
  run.run(data, plan);
  return one.report();
}

/// The same of one rank of each stage of the pipeline, the first of its stage; the others of a stage hold as much.
template <template <class> class Model, class S, class Config, any_optimizer Optimizer = adamw>
std::vector<rank_plan> plan_stages(const Config& config, const degrees& wanted, const training& plan,
                                   const Optimizer& optimizer = {}, const launch_options& options = {},
                                   function_ref<void(context&)> prepare = detail::nothing_first) {
  std::vector<rank_plan> out;
  for (const int rank : detail::first_of_each_stage<typename S::mesh>(wanted))
    out.push_back(plan_training<Model, S>(config, wanted, plan, rank, optimizer, options, prepare));
  return out;
}

}  // namespace weft
