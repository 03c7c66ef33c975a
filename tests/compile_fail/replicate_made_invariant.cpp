// expect: weft: this conversion is not in the table: a replicate can't become invariant, nor a shard partial, by itself
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
