// Finite differences for contractions: several contracted dimensions, batch dimensions, permuted and non-collapsible
// orders, and every way of placing them that the rule accepts.
#include <doctest/doctest.h>

#include <weft/op/contract.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;

const auto over_hidden = [](const auto& x, const auto& w) { return contract<hidden>(x, w); };

TEST_CASE("contract, a matrix product, placed in every legal way") {
  using x = dims<batch, seq, hidden>;
  using w = dims<hidden, ffn>;
  gradients<real<x>, real<w>>("whole", over_hidden);
  gradients<real<x, shard<batch, dp>>, real<w, shard<ffn, tp>>>("column parallel", over_hidden);
  gradients<real<x, shard<batch, dp>, shard<hidden, tp>>, real<w, shard<hidden, tp>>>("row parallel", over_hidden);
  gradients<real<x, shard<hidden, dp, tp>>, real<w, shard<hidden, dp, tp>>>("summed over two axes", over_hidden);
  gradients<real<x, shard<seq, tp, dp>>, real<w>>("kept over two axes", over_hidden);
  gradients<real<x, partial<tp>, replicate<dp>>, real<w>>("partial and replicate", over_hidden);
  gradients<real<x, partial<tp>>, real<w, partial<dp>>>("partial on one axis each", over_hidden);
  gradients<real<x, replicate<dp>>, real<w, shard<ffn, tp, dp>>>("columns over two axes, rows replicate", over_hidden);
  gradients<real<x, replicate<tp>>, real<w, replicate<dp>>>("replicate on one axis each", over_hidden);
}

TEST_CASE("contract over two dimensions, with a batch dimension") {
  using a = dims<batch, heads, seq, head_dim>;
  using b = dims<heads, head_dim, batch, ffn>;
  const auto f = [](const auto& x, const auto& y) { return contract<heads, head_dim>(x, y); };
  gradients<real<a>, real<b>>("whole, two sums", f);
  gradients<real<a, shard<heads, tp>, shard<batch, dp>>, real<b, shard<heads, tp>, shard<batch, dp>>>(
      "batch and a sum sharded", f);
  gradients<real<a, shard<head_dim, tp>, shard<seq, dp>>, real<b, shard<head_dim, tp>>>("inner sum sharded", f);
}

TEST_CASE("contract where labels neither join nor lie in one order") {
  using a = dims<head_dim, batch, hidden, seq>;
  using b = dims<hidden, ffn, batch, vocab>;
  const auto f = [](const auto& x, const auto& y) { return contract<hidden>(x, y); };
  gradients<real<a>, real<b>>("no order", f);
  gradients<real<a, shard<batch, tp>>, real<b, shard<batch, tp>, shard<ffn, dp>>>("no order, sharded", f);
}

TEST_CASE("contract whose batch dimension is the last of the output, or all is summed, or nothing else is there") {
  gradients<real<dims<hidden, batch>>, real<dims<batch, hidden>>>("batch last", over_hidden);
  gradients<real<dims<hidden, seq, batch>, shard<batch, dp>>, real<dims<hidden, ffn, batch>, shard<batch, dp>>>(
      "batch inside columns", over_hidden);
  gradients<real<dims<hidden>, shard<hidden, tp>>, real<dims<hidden>, shard<hidden, tp>>>("inner product", over_hidden);
  gradients<real<dims<hidden, seq>>, real<dims<hidden>>>("matrix and vector", over_hidden);
  gradients<real<dims<hidden, extent<ffn, 3>>>, real<dims<extent<ffn, 3>, hidden, seq>>>(
      "static extents", [](const auto& x, const auto& y) { return contract<ffn, hidden>(x, y); },
      {.base = {{ffn{}, 3}}});
}

TEST_CASE("contract with a bias, and gelu of it") {
  using x = dims<batch, seq, hidden>;
  using w = dims<heads, head_dim, hidden>;
  const auto biased = [](const auto& a, const auto& b, const auto& bias) { return contract<hidden>(a, b, bias); };
  const auto active = [](const auto& a, const auto& b, const auto& bias) { return contract_gelu<hidden>(a, b, bias); };
  gradients<real<x>, real<w>, real<dims<heads, head_dim>>>("bias of the columns", biased);
  gradients<real<x, shard<batch, dp>>, real<w, shard<heads, tp>>, real<dims<heads, head_dim>, shard<heads, tp>>>(
      "column parallel, bias of the columns", biased);
  gradients<real<x, shard<hidden, tp>>, real<w, shard<hidden, tp>>, real<dims<head_dim>, partial<tp>>>(
      "row parallel, its bias pending too", biased);
  gradients<real<x, shard<batch, dp>>, real<w>, real<dims<head_dim, batch>, shard<batch, dp>>>(
      "bias of a row's dimension and a column's", biased);
  gradients<real<x>, real<w>, real<dims<heads>, replicate<tp>>>("the product is promoted", biased);
  gradients<real<x, shard<batch, dp>>, real<w, shard<heads, tp>>, real<dims<heads, head_dim>, shard<heads, tp>>>(
      "column parallel, gelu", active);
  gradients<real<x>, real<w>, real<dims<seq>>>("gelu, bias of the rows", active);
  gradients<real<x>, real<w>, real<dims<heads>, replicate<tp>>>("gelu, the product is promoted", active);
}

TEST_CASE("contract of a tensor with itself") {
  gradients<real<dims<hidden, seq>, shard<seq, dp>>>("with itself",
                                                     [](const auto& x) { return contract<hidden>(x, x); });
}

}  // namespace
