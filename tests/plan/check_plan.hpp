// A plan beside the run that it plans, on every rank: bytes and calls.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include <weft/plan/training.hpp>
#include <weft/weft.hpp>

#include "plan/run_as_plan.hpp"

namespace weft_test {
using namespace weft;

inline const llama_config small_llama{
    .layers = 4, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 56, .vocab = 258, .max_seq = 24};

inline void nothing_first(context&) {}

// What a rank of the run itself says, as a plan; `prepare` comes before the model in both.
template <class S, template <class> class Model, class Optimizer, class Config>
std::vector<rank_plan> run_of(const degrees& wanted, const training& plan, const Optimizer& optimizer,
                              const Config& config, void (*prepare)(context&) = nothing_first) {
  return run_as_plan<S>(wanted, [&](context& ctx, const auto& begin, const auto& note) {
    prepare(ctx);
    Model<S> model(ctx, config);
    trainer run(ctx, model, optimizer);
    if constexpr (requires { S::projections::stored_as; })
      run.store().load_parameters([](const parameter_record& p) -> std::optional<std::vector<float>> {
        if (p.stored.format == weight_format::plain) return {};
        return std::vector<float>(static_cast<std::size_t>(p.global.elements()), 0.01f);
      });
    const text_dataset data(ctx, std::make_shared<text_corpus>("words", std::string(400, 'a')), 0);
    training step = plan;
    step.steps = 1, step.validation_sequences = 0, step.print = false;
    run.run(data, step);
    begin();
    run.run(data, step);
    note();
  });
}

template <class S, template <class> class Model = llama, class Optimizer = adamw, class Config = llama_config>
void check_plan(const degrees& wanted, const training& plan, const Optimizer& optimizer = {},
                const Config& config = small_llama, void (*prepare)(context&) = nothing_first) {
  const std::vector<rank_plan> runs = run_of<S, Model>(wanted, plan, optimizer, config, prepare);
  for (const rank_plan& run : runs) {
    const rank_plan planned = plan_training<Model, S>(config, wanted, plan, run.rank, optimizer, {}, prepare);
    CAPTURE(run.rank);
    CHECK(said_by(planned) == said_by(run));
  }
}

}  // namespace weft_test
