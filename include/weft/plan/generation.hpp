// The plan of text from a model: generate's own passes, on a rank that computes nothing, with weights alone.
#pragma once

#include <weft/parallel/parameter_store.hpp>
#include <weft/plan/rank.hpp>
#include <weft/train/generate.hpp>

namespace weft {

/// How long a text is, in tokens: what the model is given, at least 1, and what it adds.
struct text_length {
  std::int64_t prompt = 1;
  std::int64_t tokens = 200;
};

namespace detail {
/// Freezes every parameter: a store of the model then keeps what operators read, and nothing for training.
inline void freeze_all(parameter_registry& registry) {
  registry.freeze([](const parameter_record&) { return true; });
}
}  // namespace detail

/// What rank `rank` holds and moves that continues a text as generate does: its memory from the start to the end of the
/// text, and the text's collectives. Model<S> is made of (context&, config), as llama and gpt2 are, with any
/// vocabulary. Its parameters are frozen and lie in a parameter_store under S's sharding policy, so there are neither
/// gradients nor an optimizer's state. `options`: the threads of a rank. Throws weft::failure where the run itself
/// would, by its sizes.
template <template <class> class Model, class S, class Config>
rank_plan plan_generation(const Config& config, const degrees& wanted, const text_length& text, int rank = 0,
                          const launch_options& options = {}) {
  require(text.prompt >= 1 && text.tokens >= 0, "a text of ", text.prompt, " tokens is to be continued by ",
          text.tokens, "; the first is at least 1, as generate's is, and the second 0 or more");
  planned_rank<S> one(wanted, rank, options);
  Model<planned<S>> model(one.ctx(), config);
  detail::freeze_all(model.registry());
  parameter_store<planned_backend, typename S::precision> store(one.ctx(), model.registry(),
                                                                config_of<typename S::sharding>());
  model.use(store);
  one.forget_collectives();
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(text.prompt));
  detail::continue_tokens(model, tokens, text.tokens, [](const auto&, std::int64_t) { return std::int32_t{0}; });
  model.release();
  rank_plan out = one.report();
  out.collectives_of = "the text";
  return out;
}

/// The same of one rank of each stage of the pipeline, the first of its stage; the others of a stage hold as much.
template <template <class> class Model, class S, class Config>
std::vector<rank_plan> plan_generation_stages(const Config& config, const degrees& wanted, const text_length& text,
                                              const launch_options& options = {}) {
  std::vector<rank_plan> out;
  for (const int rank : detail::first_of_each_stage<typename S::mesh>(wanted))
    out.push_back(plan_generation<Model, S>(config, wanted, text, rank, options));
  return out;
}

}  // namespace weft
