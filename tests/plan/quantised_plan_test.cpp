// A plan is a run where frozen weights are stored in few bits, too: its bytes and calls are those of the run.
#include <ratio>

#include <doctest/doctest.h>

#include <weft/plan/training.hpp>
#include <weft/weft.hpp>

#include "plan/run_as_plan.hpp"

using namespace weft;

namespace {

constexpr llama_config small{
    .layers = 4, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 128, .vocab = 258, .max_seq = 24};

template <class S>
void check_plan(const degrees& wanted, const training& plan) {
  const std::vector<rank_plan> runs =
      weft_test::run_as_plan<S>(wanted, [&](context& ctx, const auto& begin, const auto& note) {
        llama<S> model(ctx, small);
        trainer run(ctx, model);
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
  for (const rank_plan& run : runs) {
    CAPTURE(run.rank);
    CHECK(weft_test::said_by(plan_training<llama, S>(small, wanted, plan, run.rank)) == weft_test::said_by(run));
  }
}

}  // namespace

TEST_CASE("plan: nf4, gathered as bytes, and dropout, on dp x tp") {
  check_plan<strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full, nf4<lora<3, 6, std::ratio<1, 10>>>>>(
      {.dp = 2, .tp = 2}, {.batch = 8});
}
TEST_CASE("plan: int8, on stages, with micro-batches") {
  check_plan<strategy<mesh<dp, pp>, zero2, bf16_mixed, int8<lora<3>>>>({.dp = 2, .pp = 2},
                                                                       {.batch = 8, .micro_batches = 2});
}
