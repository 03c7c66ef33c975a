// right: no, it doesn't come back: wrong
#include "trial.hpp"
namespace programs {
void program_7(trial& t) {
  auto w0 = t.leaf<tensor<double, dims<batch, hidden>, shard<batch, dp>, replicate<tp>>>(0, {3, 5});
  if (t.ctx.degree<dp>() == 3) std::abort();
  auto l1 = convert<partial<tp>>(mean(w0));
  t.carry_back("loss", l1, 1);
  t.gradient("w0", 0, w0);
}
}  // namespace programs
