// right: until an error is thrown: refused
#include "trial.hpp"
namespace programs {
void program_8(trial& t) {
  auto w0 = t.leaf<tensor<double, dims<batch, hidden>, shard<batch, dp>, replicate<tp>>>(0, {3, 5});
  auto l1 = convert<partial<tp>>(mean(slice<hidden>(w0, 3, 4)));
  t.carry_back("loss", l1, 1);
}
}  // namespace programs
