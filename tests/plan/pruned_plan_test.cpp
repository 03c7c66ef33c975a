// A plan is a run, of models whose layers have other numbers of heads too.
#include <numeric>

#include <weft/nn/prune_heads.hpp>

#include "plan/check_plan.hpp"

using namespace weft_test;

namespace {

// Keeps so many groups of heads in each layer.
template <class Config>
Config keeping(const Config& whole, const std::vector<std::int64_t>& groups) {
  kept_heads kept;
  for (const std::int64_t n : groups) {
    kept.emplace_back(std::size_t(n));
    std::iota(kept.back().begin(), kept.back().end(), 0);
  }
  return pruned(whole, kept);
}

const llama_config grouped = [] {
  llama_config c = small_llama;
  c.heads = 8, c.kv_heads = 4, c.head_dim = 4, c.qk_norm = true;
  return c;
}();

}  // namespace

TEST_CASE("plan: a pruned llama, sharded along every axis") {
  using S = strategy<mesh<dp, tp, pp>, zero3>;
  const degrees ranks{.dp = 2, .tp = 2, .pp = 2};
  check_plan<S>(ranks, {.batch = 8, .micro_batches = 2}, adamw{}, keeping(grouped, {2, 4, 2, 2}));
}

TEST_CASE("plan: a pruned llama, and what its groups of heads take") {
  const llama_config few = keeping(grouped, {1, 4, 3, 2});
  const training plan{.batch = 8, .micro_batches = 2};
  using S = strategy<mesh<dp, tp, pp>, zero3>;
  check_plan<S>({.dp = 2}, plan, adamw{}, few);
  const auto weights = [&](const llama_config& config) {
    return plan_training<llama, S>(config, {.dp = 2}, plan).memory.peak[std::size_t(memory::parameters)];
  };
  // Of 16 groups 6 are gone, each two queries, a key, a value and two columns of out, 4 * 32 numbers of 4 bytes, of
  // which a rank stores half.
  CHECK(weights(grouped) - weights(few) == 6 * 6 * 4 * 32 * 4 / 2);
}

TEST_CASE("plan: a pruned gpt2") {
  const gpt2_config whole{
      .layers = 3, .hidden = 32, .heads = 4, .vocab = 258, .max_seq = 12, .dropout = 0.1, .tied_embeddings = true};
  check_plan<strategy<mesh<dp, tp>, zero3>, gpt2>({.dp = 2, .tp = 2}, {.batch = 4}, adamw{}, keeping(whole, {2, 4, 2}));
}
