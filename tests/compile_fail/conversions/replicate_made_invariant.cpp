// expect: weft: a replicate value can't become invariant, since its gradient is pending: make it invariant where it was made replicate, by convert<invariant<axis>>(x)
// Its gradient has addends that nobody would sum.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, seq>, shard<seq, tp>>& x) {
#ifdef WRONG
  return convert<invariant<tp>>(all_gather<tp>(x));
#else
  return convert<invariant<tp>>(x);
#endif
}
