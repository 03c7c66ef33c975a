// Kernels' scratch: what a plan says is what the run's kernels took, whatever the threads and the instruction set.
#include <doctest/doctest.h>

#include <weft/plan/training.hpp>
#include <weft/weft.hpp>

#include "sample.hpp"

using namespace weft;

namespace {

// After a step of the run, on its first rank.
template <template <class> class Model, class S, class Config>
std::size_t scratch_of_run(const Config& config, const degrees& wanted, training plan, int threads) {
  plan.steps = 2, plan.validation_sequences = 0, plan.print = false;
  std::size_t bytes = 0;
  launch<S>(wanted,
            [&](context& ctx) {
              Model<S> model(ctx, config);
              trainer run(ctx, model, adamw{});
              const text_dataset data(ctx, std::make_shared<text_corpus>("words", std::string(3000, 'a')), 0);
              run.run(data, plan);
              if (ctx.is_first()) bytes = ctx.memory.ledger().scratch.value();
            },
            {.threads_per_rank = threads, .check = false});
  return bytes;
}
template <template <class> class Model, class S, class Config>
void check_scratch(const Config& config, const degrees& wanted, const training& plan) {
  const cpu::isa before = cpu::current_isa();
  for (const cpu::isa level :
       {cpu::isa::portable, cpu::isa::avx2, cpu::isa::avx512, cpu::isa::avx512_bf16, cpu::isa::amx}) {
    if (!cpu::has_isa(level) || (weft_test::sample_stride() > 1 && level != before)) continue;
    cpu::use_isa(level);
    std::size_t of_one = 0;
    for (const int threads : {1, 2, 3}) {
      CAPTURE(cpu::name_of(level));
      CAPTURE(threads);
      const std::size_t run = scratch_of_run<Model, S>(config, wanted, plan, threads);
      const rank_plan planned =
          plan_training<Model, S>(config, wanted, plan, 0, adamw{}, {.threads_per_rank = threads});
      CHECK(run > 0);
      CHECK(planned.memory.scratch == run);
      if (threads == 1) of_one = run;
      CHECK((threads == 1 || run > of_one));
    }
  }
  cpu::use_isa(before);
}

}  // namespace

TEST_CASE("plan of scratch: llama") {
  const llama_config config{
      .layers = 2, .hidden = 96, .heads = 6, .kv_heads = 2, .ffn = 200, .vocab = 300, .max_seq = 80};
  check_scratch<llama, strategy<mesh<dp>>>(config, {}, {.batch = 5});
  check_scratch<llama, strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full>>(config, {.tp = 2}, {.batch = 4});
}
TEST_CASE("plan of scratch: gpt2") {
  const gpt2_config config{.layers = 1, .hidden = 80, .heads = 4, .vocab = 1100, .max_seq = 300};
  check_scratch<gpt2, strategy<mesh<dp>>>(config, {}, {.batch = 2});
  check_scratch<gpt2, strategy<mesh<dp>, bf16_mixed>>(config, {}, {.batch = 2});
}

TEST_CASE("plan of scratch: another backend's isn't told") {
  using S = strategy<mesh<dp>, planned_backend>;
  const rank_plan p = plan_training<llama, S>(llama_config{.layers = 1}, {}, {.batch = 1});
  CHECK(!p.memory.scratch);
}
