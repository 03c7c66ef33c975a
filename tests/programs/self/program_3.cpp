// right: no, a gradient comes from a loss that nobody told of: wrong
#include "trial.hpp"
namespace programs {
void program_3(trial& t) {
  auto w0 = t.leaf<tensor<double, dims<batch, hidden>, shard<batch, dp>, replicate<tp>>>(0, {3, 5});
  auto l1 = convert<partial<tp>>(sum(w0));
  backward(l1);
  auto l2 = convert<partial<tp>>(sum(square(w0)));
  t.carry_back("loss", l2, 1);
  t.gradient("w0", 0, w0);
}
}  // namespace programs
