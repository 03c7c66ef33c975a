// A plan is a run, whatever a model's projections are made of, and where its loss is taken in chunks or its sequences
// have documents.
#include <ratio>

#include "plan/check_plan.hpp"

using namespace weft_test;

TEST_CASE("plan: adapters alone train, by matrices and by element; their state elsewhere") {
  const auto elsewhere = [](context& ctx) { ctx.keep_optimizer_state_in({}); };
  for (const auto prepare : {nothing_first, +elsewhere})
    check_plan<strategy<mesh<dp, tp>, zero2, bf16_mixed, lora<3>>>({.dp = 2, .tp = 2}, {.batch = 8, .micro_batches = 2},
                                                                   by_shape{muon{}, adamw{}}, small_llama, prepare);
}

TEST_CASE("plan: dropout before the adapters, kept, and computed again") {
  using form = lora<3, 6, std::ratio<1, 10>>;
  check_plan<strategy<mesh<dp, tp>, zero2, bf16_mixed, form>>({.dp = 2, .tp = 2}, {.batch = 8, .micro_batches = 2});
  check_plan<strategy<mesh<pp, tp>, bf16_mixed, checkpoint_selective, zb_h1, fused_qkv<form>>>(
      {.tp = 2, .pp = 2}, {.batch = 8, .micro_batches = 4});
}

TEST_CASE("plan: documents apart") {
  llama_config config = small_llama;
  config.document_end = 'a';
  check_plan<strategy<mesh<dp, tp, pp>, zero3, checkpoint_full, sequence_parallel>>(
      {.dp = 2, .tp = 2, .pp = 2}, {.batch = 8, .micro_batches = 2}, adamw{}, config);
}

TEST_CASE("plan: queries, keys and values fused, of pruned heads too") {
  using S = strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_selective, fused_qkv<>>;
  const training plan{.batch = 8, .micro_batches = 2};
  check_plan<S>({.dp = 2, .tp = 2}, plan, by_shape{one_owner{muon{}}, adamw{}});
  llama_config pruned = small_llama;
  pruned.heads = 8, pruned.kv_heads = 4, pruned.layer_groups = {2, 4, 4, 2};
  check_plan<S>({.dp = 2, .tp = 2}, plan, by_shape{one_owner{muon{}}, adamw{}}, pruned);
}

TEST_CASE("plan: products in 8 bits, whose rounded operands are arrays of their own") {
  check_plan<strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_selective, float8<>>>(
      {.dp = 2, .tp = 2}, {.batch = 8, .micro_batches = 2});
}

TEST_CASE("plan: key and value heads shared by more ranks than they are") {
  check_plan<strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_selective, sequence_parallel, shared_kv<>>>(
      {.dp = 2, .tp = 4}, {.batch = 8, .micro_batches = 2});
  check_plan<strategy<mesh<pp, tp>, bf16_mixed, zb_h1, shared_kv<lora<3>>>>({.tp = 4, .pp = 2},
                                                                            {.batch = 8, .micro_batches = 4});
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
  llama_config tied = small_llama;
  tied.tied_embeddings = true;
  check_chunks<zero3, sequence_parallel>({.dp = 2, .tp = 2}, {.batch = 8}, small_llama);
  check_chunks<zero3>({.dp = 2, .pp = 2}, {.batch = 8, .micro_batches = 2}, tied);
  check_chunks<>({.tp = 2}, {.batch = 2}, small_llama);
}
