// The loss as two sums over tokens, of which the mean is one by the other. Invariant: sums of unequal parts add up;
// means don't, so nothing is divided before the last rank and the last micro-batch are in.
#pragma once

#include <weft/comm/context.hpp>

namespace weft {

/// The sum of the losses of tokens, in nats, and how many tokens; double, whatever the loss was computed in.
struct loss_sums {
  double sum = 0, count = 0;
};

/// Finishes this rank's sums over the axes that the loss's type L says they are pending on, and over the stages of a
/// pipeline, of which the last alone has any. All ranks call it.
template <any_tensor L>
loss_sums finished(context& ctx, loss_sums s) {
  double two[2] = {s.sum, s.count};
  const auto sum_over = [&](axis_id axis) {
    if (axis_group* g = ctx.group(axis)) g->comm.all_reduce(two, two, 2, dtype::f64, reduction::sum, {"loss"}).wait();
  };
  [&]<class... As>(tag_list<As...>) {
    ((state_on<layout_of<L>, As>.kind == holds::partial ? sum_over(id_of<As>) : void()), ...);
  }(axes_of<layout_of<L>>{});
  sum_over(id_of<pp>);
  return {two[0], two[1]};
}

}  // namespace weft
