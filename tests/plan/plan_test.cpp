// A plan is a run: its bytes and calls are those of the run, on every rank.
#include <ratio>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <weft/plan/training.hpp>
#include <weft/weft.hpp>

#include "plan/run_as_plan.hpp"

using namespace weft;

namespace {

const llama_config small{.layers = 4, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 56, .vocab = 258, .max_seq = 24};

// What a rank of the run itself says, as a plan.
template <class S, class Optimizer>
std::vector<rank_plan> run_of(const degrees& wanted, const training& plan, const Optimizer& optimizer,
                              const llama_config& config) {
  return weft_test::run_as_plan<S>(wanted, [&](context& ctx, const auto& begin, const auto& note) {
    llama<S> model(ctx, config);
    trainer run(ctx, model, optimizer);
    const text_dataset data(ctx, std::make_shared<text_corpus>("words", std::string(400, 'a')), 0);
    training step = plan;
    step.steps = 1, step.validation_sequences = 0, step.print = false;
    run.run(data, step);
    begin();
    run.run(data, step);
    note();
  });
}

template <class S, class Optimizer = adamw>
void check_plan(const degrees& wanted, const training& plan, const Optimizer& optimizer = {},
                const llama_config& config = small) {
  const std::vector<rank_plan> runs = run_of<S>(wanted, plan, optimizer, config);
  for (const rank_plan& run : runs) {
    const rank_plan planned = plan_training<llama, S>(config, wanted, plan, run.rank, optimizer);
    CAPTURE(run.rank);
    CHECK(weft_test::said_by(planned) == weft_test::said_by(run));
  }
}

}  // namespace

TEST_CASE("plan: one rank") { check_plan<strategy<mesh<dp>>>({}, {.batch = 4}); }
TEST_CASE("plan: zero3, bf16, full recomputation on dp x tp") {
  check_plan<strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full>>({.dp = 2, .tp = 2}, {.batch = 8});
}
TEST_CASE("plan: stages, sequence parallelism, selective recomputation") {
  check_plan<strategy<mesh<pp, tp>, fp32, checkpoint_selective, sequence_parallel>>({.tp = 2, .pp = 4},
                                                                                    {.batch = 8, .micro_batches = 4});
}

TEST_CASE("plan: adapters alone train, by matrices and by element") {
  check_plan<strategy<mesh<dp, tp>, zero2, bf16_mixed, lora<3>>>({.dp = 2, .tp = 2}, {.batch = 8, .micro_batches = 2},
                                                                 by_shape{muon{}, adamw{}});
}

TEST_CASE("plan: dropout before the adapters, kept, and computed again") {
  using form = lora<3, 6, std::ratio<1, 10>>;
  check_plan<strategy<mesh<dp, tp>, zero2, bf16_mixed, form>>({.dp = 2, .tp = 2}, {.batch = 8, .micro_batches = 2});
  check_plan<strategy<mesh<pp, tp>, bf16_mixed, checkpoint_selective, zb_h1, fused_qkv<form>>>(
      {.tp = 2, .pp = 2}, {.batch = 8, .micro_batches = 4});
}

TEST_CASE("plan: documents apart") {
  llama_config config = small;
  config.document_end = 'a';
  check_plan<strategy<mesh<dp, tp, pp>, zero3, checkpoint_full, sequence_parallel>>(
      {.dp = 2, .tp = 2, .pp = 2}, {.batch = 8, .micro_batches = 2}, adamw{}, config);
}

TEST_CASE("plan: queries, keys and values fused") {
  check_plan<strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_selective, fused_qkv<>>>(
      {.dp = 2, .tp = 2}, {.batch = 8, .micro_batches = 2}, by_shape{muon{}, adamw{}});
}

namespace {
std::int64_t calls_along(std::string_view axis, const rank_plan& p) {
  std::int64_t calls = 0;
  for (const trace_total& t : p.collectives) calls += t.axis == axis ? t.calls : 0;
  return calls;
}
template <class... Policies>
void check_chunks(const degrees& wanted, const training& plan, llama_config config) {
  using whole = strategy<mesh<pp, dp, tp>, bf16_mixed, checkpoint_full, Policies...>;
  using cut = strategy<mesh<pp, dp, tp>, bf16_mixed, checkpoint_full, chunked_loss<8>, Policies...>;
  config.vocab = 4096;
  check_plan<cut>(wanted, plan, {}, config);
  const std::vector<rank_plan> before = plan_stages<llama, whole>(config, wanted, plan),
                               after = plan_stages<llama, cut>(config, wanted, plan);
  const auto activations = [](const rank_plan& p) { return double(p.memory.peak[std::size_t(memory::activations)]); };
  const double sequences = double(plan.batch / plan.micro_batches / wanted.dp),
               logits = 2 * sequences * 24 * 4096 / double(wanted.tp);  // bf16
  CHECK(activations(before.back()) >= logits);
  CHECK(activations(after.back()) <= activations(before.back()) - logits * 0.8);  // 7/8 are gone
  CHECK(after.back().memory.peak_total < before.back().memory.peak_total);
  // Cross-entropy's two sums over a sharded vocabulary, in each of 8 chunks in both runs; nothing else.
  CHECK(calls_along("tp", after.back()) - calls_along("tp", before.back()) ==
        (wanted.tp > 1 ? 2 * 8 * 2 - 2 : 0) * plan.micro_batches);
  // Weights are gathered, and gradients summed, as often as before.
  for (std::size_t stage = 0; stage < before.size(); ++stage) {
    CHECK(calls_along("dp", before[stage]) == calls_along("dp", after[stage]));
    if (stage + 1 < before.size()) CHECK(weft_test::said_by(before[stage]) == weft_test::said_by(after[stage]));
  }
}
}  // namespace
TEST_CASE("plan: the loss in chunks") {
  llama_config tied = small;
  tied.tied_embeddings = true;
  check_chunks<zero3, sequence_parallel>({.dp = 2, .tp = 2}, {.batch = 8}, small);
  check_chunks<zero3>({.dp = 2, .pp = 2}, {.batch = 8, .micro_batches = 2}, tied);
  check_chunks<>({.tp = 2}, {.batch = 2}, small);
}

TEST_CASE("plan: several virtual stages a rank, tied embeddings on one rank and on two") {
  llama_config eight = small;
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
  const rank_plan planned = plan_training<llama, S>(small, ranks, {.batch = 8});
  bool over_both_axes = false;
  for (const trace_total& t : planned.collectives) over_both_axes = over_both_axes || t.axis == "dp+ep";
  CHECK(over_both_axes);
}
TEST_CASE("plan: a rank of each stage holds what every rank of it holds") {
  using S = strategy<mesh<dp, pp, tp>, zero2, bf16_mixed>;
  const degrees wanted{.dp = 2, .tp = 2, .pp = 3};
  const training plan{.batch = 12, .micro_batches = 3};
  const std::vector<rank_plan> stages = plan_stages<llama, S>(small, wanted, plan);
  REQUIRE(stages.size() == 3);
  for (int rank = 0; rank < 12; ++rank) {
    const rank_plan one = plan_training<llama, S>(small, wanted, plan, rank);
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

TEST_CASE("plan: what a table says") {
  rank_plan p;
  p.rank = 3, p.ranks = 8, p.places = {{"tp", 1, 2}, {"pp", 0, 1}}, p.peak_in = "backward head";
  p.memory.peak_total = 5 * 1024;
  p.memory.peak[0] = p.memory.at_peak[0] = std::size_t{3} << 40;
  p.collectives = {{"all_reduce", "tp", 7, 2000, 1000}};
  CHECK(table_of(p) ==
        "rank 3 of 8 (tp 1 of 2): 5.00 KiB at most, in backward head\n"
        "  memory                               then  its highest\n"
        "  parameters                       3.00 TiB     3.00 TiB\n"
        "  scratch of kernels                         not planned\n"
        "  collectives of a step               calls     receives\n"
        "  all_reduce tp                           7       1000 B\n");
  CHECK(nlohmann::json::parse(json_of(p))["scratch"].is_null());
  p.memory.scratch = 3 * 1024;
  CHECK(table_of(p).find("  scratch of kernels                            3.00 KiB\n") != std::string::npos);
  const auto read = nlohmann::json::parse(json_of(p));
  CHECK(read["scratch"] == 3 * 1024);
  CHECK(read["places"]["tp"]["size"] == 2);
  CHECK(read["peak"] == 5 * 1024);
  CHECK(read["categories"]["parameters"]["at_peak"] == std::int64_t{3} << 40);
  CHECK(read["collectives"][0]["wire_bytes"] == 1000);
}

TEST_CASE("plan: what it refuses") {
  using S = strategy<mesh<dp, tp>>;
  CHECK_THROWS_WITH_AS(planned_rank<S>({.dp = 2}, 2), "rank 2 is to be planned, and the degrees make ranks 0 to 1",
                       failure);
  CHECK_THROWS_AS(planned_rank<S>({.pp = 2}, 0), failure);
  CHECK_THROWS_AS((plan_stages<llama, S>(small, {.dp = 0}, {})), failure);
  CHECK_THROWS_WITH_AS((plan_training<llama, S>(small, {.dp = 2}, {.batch = 3})),
                       doctest::Contains("doesn't divide into 1 micro-batches on 2 data-parallel ranks"), failure);
  CHECK_THROWS_WITH_AS((plan_training<llama, S>(small, {.tp = 3}, {.batch = 3})), doctest::Contains("tp"), failure);
  CHECK_THROWS_WITH_AS((plan_training<llama, S>(small, {.dp = 2}, {.batch = 2, .seq = -3})),
                       doctest::Contains("seq is -3; a sequence has at least 1 token"), failure);
  llama_config huge = small;
  huge.vocab = std::int64_t{1} << 60;
  CHECK_THROWS_WITH_AS((plan_training<llama, S>(huge, {}, {.batch = 1})), doctest::Contains("at most 2^58 elements"),
                       failure);
  CHECK_THROWS_WITH_AS(launch<planned<S>>({.dp = 2}, [](context&) {}),
                       doctest::Contains("a plan's strategy is not launched"), failure);
  CHECK_THROWS_WITH_AS(planned_rank<S>({}, 0, {.threads_per_rank = 0}), doctest::Contains("threads_per_rank is 0"),
                       failure);
  planned_rank<S> one({.dp = 2}, 0);
  CHECK_THROWS_WITH_AS(full<token_ids<S>>(one.ctx(), {4, 4}, 1), doctest::Contains("names another backend"), failure);
  CHECK_THROWS_WITH_AS(one.ctx().world.split(0, 0, "pairs"), doctest::Contains("make it an axis"), failure);
}

TEST_CASE("plan: numbers in the host's memory are those of this rank") {
  planned_group three(1, 3, {});
  double mine[2] = {5, 0}, got[2] = {};
  three.all_reduce(mine, got, 2, dtype::f64, reduction::sum).wait();
  CHECK((got[0] == 5 && got[1] == 0));
  mine[0] = 0;
  three.all_reduce(mine, got, 2, dtype::f64, reduction::sum).wait();
  CHECK((got[0] == 1 && got[1] == 1));
  three.all_reduce(mine, mine, 2, dtype::f64, reduction::max).wait();
  CHECK((mine[0] == 0 && mine[1] == 0));
  std::int32_t all[6] = {0, 1, 2, 3, 4, 5}, part[2] = {};
  three.reduce_scatter(all, part, 2, dtype::i32, reduction::sum).wait();
  CHECK((part[0] == 2 && part[1] == 3));
  three.all_gather(part, all, sizeof part).wait();
  CHECK((all[0] == 2 && all[3] == 3 && all[4] == 2 && all[5] == 3));
  three.recv(part, sizeof part, 0, 0).wait();
  CHECK((part[0] == 0 && part[1] == 0));
  CHECK_THROWS_AS(three.send(part, 8, 3, 0).wait(), failure);
  CHECK_THROWS_WITH_AS(three.recv(part, 8, 0, 32768).wait(), "recv has the tag 32768; tags are 0 to 32767.", failure);
}

TEST_CASE("plan: several ranks at once, beside a rank that runs") {
  using S = strategy<mesh<dp>>;
  using numbers = tensor<float, dims<hidden>, replicate<dp>>;
  launch<S>({}, [](context& ctx) {
    const auto own = full<numbers>(ctx, {2}, 1);
    auto a = std::make_unique<planned_rank<S>>(degrees{.dp = 2}, 0),
         b = std::make_unique<planned_rank<S>>(degrees{.dp = 2}, 1);
    const auto make = [](planned_rank<S>& of) { return of.ctx().make(dtype::f32, {1, {4}}); };
    CHECK(detail::is_planned(make(*a).data));
    CHECK(item(sum(own)) == 2);
    a.reset();
    CHECK(detail::is_planned(make(*b).data));
    CHECK(item(sum(own)) == 2);
  });
}

TEST_CASE("plan: a chunk of a rank's memory is no memory of the process") {
  planned_rank<strategy<mesh<>>> one({}, 0);
  const local_array x = one.ctx().make(dtype::f32, {1, {std::int64_t{1} << 40}});  // 4 TiB
  CHECK(detail::is_planned(x.data));
  CHECK(one.report().memory.peak_total == std::size_t{4} << 40);
}

TEST_CASE("plan: sizes cost no memory of this machine") {
  using S = strategy<mesh<dp>, zero3, bf16_mixed>;
  llama_config c = small;
  c.max_seq = std::int64_t{1} << 24;  // a table of angles of 16 GiB
  const rank_plan p = plan_training<llama, S>(c, {.dp = 2}, {.batch = 1 << 20});
  CHECK(p.memory.peak_total > std::size_t{1} << 45);
}
