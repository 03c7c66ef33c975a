// Finite differences for attention: causal or not, with groups of query heads, more keys than queries, batch and heads
// sharded.
#include <doctest/doctest.h>

#include <weft/op/attention.hpp>
#include <weft/op/view.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using q4 = dims<batch, seq, heads, head_dim>;
using k4 = dims<batch, seq, kv_heads, head_dim>;

const auto causal = [](const auto& q, const auto& k, const auto& v) { return attention(q, k, v); };
// Keys that are another dimension than the queries' positions are named.
const auto causal_to_keys = [](const auto& q, const auto& k, const auto& v) {
  return attention<seq, heads, head_dim, ffn>(q, k, v);
};
const auto full_to_keys = [](const auto& q, const auto& k, const auto& v) {
  return attention<seq, heads, head_dim, ffn, kv_heads>(q, k, v, {.causal = false, .scale = 0.3});
};
const auto full_ = [](const auto& q, const auto& k, const auto& v) {
  return attention(q, k, v, {.causal = false, .scale = 0.3});
};

TEST_CASE("attention, one key head a query head") {
  gradients<real<q4>, real<q4>, real<q4>>("causal", causal);
  gradients<real<q4, shard<batch, dp>, shard<heads, tp>>, real<q4, shard<batch, dp>, shard<heads, tp>>,
            real<q4, shard<batch, dp>, shard<heads, tp>>>("causal, batch and heads sharded", causal);
  gradients<real<q4, replicate<dp>>, real<q4>, real<q4, replicate<tp>>>("not causal, replicate and invariant", full_);
}

TEST_CASE("attention, grouped queries") {
  const options groups{.base = {{heads{}, 6}, {kv_heads{}, 2}, {seq{}, 5}}, .even = {heads{}, kv_heads{}}};
  gradients<real<q4>, real<k4>, real<k4>>("grouped", causal, groups);
  gradients<real<q4, shard<heads, tp, dp>>, real<k4, shard<kv_heads, tp, dp>>, real<k4, shard<kv_heads, tp, dp>>>(
      "grouped, heads over two axes", full_, groups);
  gradients<real<q4, shard<heads, tp>>, real<k4, shard<kv_heads, tp>>, real<k4, shard<kv_heads, tp>>>(
      "grouped, heads sharded", causal, groups);
}

TEST_CASE("attention of the last queries to more keys") {
  using keys = dims<batch, ffn, kv_heads, head_dim>;  // ffn: the keys' dimension
  const options more{.base = {{heads{}, 4}, {kv_heads{}, 2}, {seq{}, 3}, {ffn{}, 7}}, .even = {heads{}, kv_heads{}}};
  gradients<real<q4, shard<batch, dp>>, real<keys, shard<batch, dp>>, real<keys, shard<batch, dp>>>(
      "more keys, causal", causal_to_keys, more);
  gradients<real<q4>, real<keys>, real<keys>>("more keys, not causal", full_to_keys, more);
}

TEST_CASE("attention of one tensor to itself") {
  gradients<real<q4, shard<heads, tp>>>("itself", [](const auto& x) { return attention(x, x, x); });
}

}  // namespace
