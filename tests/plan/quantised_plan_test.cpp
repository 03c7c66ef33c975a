// A plan is a run where frozen weights are stored in few bits, too: its bytes and calls are those of the run.
#include <ratio>

#include "plan/check_plan.hpp"

using namespace weft_test;

namespace {
const llama_config wider{
    .layers = 4, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 128, .vocab = 258, .max_seq = 24};
struct on_queries_and_values : lora<3> {
  static constexpr std::string_view name = "on_queries_and_values";
  static bool adapts_weight(std::string_view w) { return w.ends_with("query") || w.ends_with("value"); }
};
}  // namespace

TEST_CASE("plan: nf4, gathered as bytes, and dropout, on dp x tp") {
  check_plan<strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full, nf4<lora<3, 6, std::ratio<1, 10>>>>>(
      {.dp = 2, .tp = 2}, {.batch = 8}, adamw{}, wider);
}
TEST_CASE("plan: nf4 and adapters, key and value heads shared, and the loss in chunks") {
  llama_config four_ways = wider;  // nf4 has blocks of 64 elements of a row, each on one rank
  four_ways.head_dim = 64, four_ways.ffn = 256;
  check_plan<strategy<mesh<pp, dp, tp>, zero3, bf16_mixed, checkpoint_full, sequence_parallel, chunked_loss<8>,
                      nf4<shared_kv<lora<16>>>>>({.dp = 2, .tp = 4}, {.batch = 8}, adamw{}, four_ways);
}
TEST_CASE("plan: int8, on stages, with micro-batches") {
  check_plan<strategy<mesh<dp, pp>, zero2, bf16_mixed, int8<lora<3>>>>(
      {.dp = 2, .pp = 2}, {.batch = 8, .micro_batches = 2}, adamw{}, wider);
}
TEST_CASE("plan: some projections alone have adapters, and the others' inputs aren't kept") {
  check_plan<strategy<mesh<dp>, zero3, bf16_mixed, checkpoint_selective, nf4<on_queries_and_values>>>(
      {.dp = 2}, {.batch = 8, .micro_batches = 2}, adamw{}, wider);
  check_plan<strategy<mesh<dp, pp>, bf16_mixed, zb_h1, on_queries_and_values>>(
      {.pp = 2}, {.batch = 8, .micro_batches = 4}, adamw{}, wider);
}
