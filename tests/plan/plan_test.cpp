// A plan is a run: its bytes and calls are those of the run, on every rank.
#include "plan/check_plan.hpp"

using namespace weft_test;

TEST_CASE("plan: one rank") { check_plan<strategy<mesh<dp>>>({}, {.batch = 4}); }
TEST_CASE("plan: zero3, bf16, full recomputation on dp x tp") {
  check_plan<strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full>>({.dp = 2, .tp = 2}, {.batch = 8});
}
TEST_CASE("plan: stages, sequence parallelism, selective recomputation") {
  check_plan<strategy<mesh<pp, tp>, fp32, checkpoint_selective, sequence_parallel>>({.tp = 2, .pp = 4},
                                                                                    {.batch = 8, .micro_batches = 4});
}

TEST_CASE("plan: several virtual stages a rank, tied embeddings on one rank and on two") {
  llama_config eight = small_llama;
  eight.layers = 8, eight.tied_embeddings = true;
  check_plan<strategy<mesh<pp, dp>, zero3, zbv>>({.dp = 2, .pp = 2}, {.batch = 12, .micro_batches = 6}, adamw{}, eight);
  check_plan<strategy<mesh<pp>, zero1, dual_pipe_v>>({.pp = 2}, {.batch = 10, .micro_batches = 5}, adamw{}, eight);
  check_plan<strategy<mesh<pp>, zero1, checkpoint_full, interleaved<2>>>({.pp = 4}, {.batch = 8, .micro_batches = 8},
                                                                         adamw{}, eight);
}

namespace {
struct over_both : zero3 {
  static constexpr std::string_view name = "over_both";
  using axis = along<dp, ep>;
};
}  // namespace
TEST_CASE("plan: storage over two axes") {
  using S = strategy<mesh<dp, ep, tp>, over_both, bf16_mixed>;
  const degrees ranks{.dp = 2, .tp = 2, .ep = 2};
  check_plan<S>(ranks, {.batch = 8});
  const rank_plan planned = plan_training<llama, S>(small_llama, ranks, {.batch = 8});
  bool over_both_axes = false;
  for (const trace_total& t : planned.collectives) over_both_axes = over_both_axes || t.axis == "dp+ep";
  CHECK(over_both_axes);
}
TEST_CASE("plan: a rank of each stage holds what every rank of it holds") {
  using S = strategy<mesh<dp, pp, tp>, zero2, bf16_mixed>;
  const degrees wanted{.dp = 2, .tp = 2, .pp = 3};
  const training plan{.batch = 12, .micro_batches = 3};
  const std::vector<rank_plan> stages = plan_stages<llama, S>(small_llama, wanted, plan);
  REQUIRE(stages.size() == 3);
  for (int rank = 0; rank < 12; ++rank) {
    const rank_plan one = plan_training<llama, S>(small_llama, wanted, plan, rank);
    const int stage = rank / 2 % 3;
    CAPTURE(rank);
    CHECK(stages[std::size_t(stage)].rank == 2 * stage);
    CHECK(one.memory.peak_total == stages[std::size_t(stage)].memory.peak_total);
    CHECK(one.memory.at_peak == stages[std::size_t(stage)].memory.at_peak);
    CHECK(one.peak_in == stages[std::size_t(stage)].peak_in);
    REQUIRE(one.places.size() == 4);
    CHECK(one.places[1].name == "pp");
    CHECK(one.places[1].rank == stage);
    CHECK(one.places[2].size == (stage == 1 ? 1 : 2));
  }
}
