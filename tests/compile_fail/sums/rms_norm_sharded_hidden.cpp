// expect: weft: rms_norm(x, weight) needs the normalised dimension whole on every rank: all_gather<axis> it first
// The mean of a slice is not the mean.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, hidden>, shard<hidden, tp>>& x, const tensor<float, dims<hidden>>& w) {
#ifdef WRONG
  return rms_norm(x, w);
#else
  return rms_norm(all_gather<tp>(x), w);
#endif
}
