// right: no, refused with a sentence: unlike
#include "trial.hpp"
namespace programs {
void program_4(trial& t) {
  auto w0 = t.leaf<tensor<double, dims<batch, hidden>, shard<batch, dp>, replicate<tp>>>(0, {3, 5});
  auto l1 = sum(exp(sum<batch>(w0)));
  t.carry_back("loss", l1, 1);
}
}  // namespace programs
