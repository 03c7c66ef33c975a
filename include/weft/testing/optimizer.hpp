// The law of an optimizer: whoever stores a parameter's parts, its steps are those of one rank. Needs no test
// framework. Invariant: in double, so that what differs is not rounding.
#pragma once

#include <weft/testing/strategy.hpp>

namespace weft::testing {

/// Throws weft::failure, a line for each disagreement, unless a small Llama trained by `optimizer` under every sharding
/// policy, on a mesh of dp and tp, has the losses and gradients of one rank. lr has to move the weights so far in four
/// steps that a wrong one shows: 0.01 for optimizers that divide by a gradient's size, more for others. Cost: seconds,
/// on up to eight threads.
///
///   testing::check_optimizer(sgd{.lr = 0.5});
///   testing::check_optimizer(by_shape{muon{.lr = 0.02}, adamw{.lr = 0.01}});
template <class Optimizer>
void check_optimizer(const Optimizer& optimizer) {
  static_assert(
      any_optimizer<Optimizer>,
      "weft: check_optimizer takes what a trainer takes: adamw, sgd, by_shape{muon{}, adamw{}}, or an optimizer "
      "of one's own with moments, lr and update(share, step)");
  require(optimizer.lr > 0, "check_optimizer's lr is ", optimizer.lr, ", at which no weight moves; give one above 0");
  using axes = mesh<dp, tp>;
  const training_task task{
      {.steps = 4, .micro_batches = 2},
      {.layers = 2, .hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 18, .vocab = 47, .max_seq = 16}};
  const auto one = train<strategy<axes, replicated, fp64>>({}, task, optimizer);
  std::string wrong;
  const auto same = [&]<class S>(S, const degrees& ranks) {
    for (const std::string& line : disagreements(one, train<S>(ranks, task, optimizer), 1e-9, 1e-8))
      wrong += std::string(S::sharding::name) + ": " + line + "\n";
  };
  same(strategy<axes, replicated, fp64>{}, {.dp = 2, .tp = 2});
  same(strategy<axes, zero1, fp64>{}, {.dp = 2, .tp = 2});
  same(strategy<axes, zero2, fp64>{}, {.dp = 4});
  same(strategy<axes, zero3, fp64>{}, {.dp = 4, .tp = 2});
  same(strategy<mesh<dp, fsdp, tp>, hybrid, fp64>{}, degrees{.dp = 2}.with<fsdp>(2));
  require(wrong.empty(), wrong);
}

}  // namespace weft::testing
