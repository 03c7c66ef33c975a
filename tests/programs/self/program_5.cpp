// wrong: refused, but by no sentence of Weft's: wrong
#include "trial.hpp"
namespace programs {
void program_5(trial& t) {
  auto w0 = t.leaf<tensor<double, dims<batch, hidden>, shard<batch, dp>, replicate<tp>>>(0, {3, 5});
  auto l1 = w0.something_else();
}
}  // namespace programs
