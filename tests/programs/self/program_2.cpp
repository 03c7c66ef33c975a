// right: no, its numbers depend on the rank, which no type can see: an error, check's
#include "trial.hpp"
namespace programs {
void program_2(trial& t) {
  auto w0 = t.leaf<tensor<double, dims<batch, hidden>, shard<batch, dp>, replicate<tp>>>(0, {3, 5});
  auto l1 = convert<partial<tp>>(sum(scale(w0, 1 + t.ctx.index<dp>().here())));
  t.carry_back("loss", l1, 1);
  t.gradient("w0", 0, w0);
}
}  // namespace programs
