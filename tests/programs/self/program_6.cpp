// wrong: no, it is right: unlike
#include "trial.hpp"
namespace programs {
void program_6(trial& t) {
  auto w0 = t.leaf<tensor<double, dims<batch, hidden>, shard<batch, dp>, replicate<tp>>>(0, {3, 5});
  auto l1 = convert<partial<tp>>(mean(w0));
  t.carry_back("loss", l1, 1);
  t.gradient("w0", 0, w0);
}
}  // namespace programs
