// expect: weft: all_gather<axis>(x) needs x sharded over that axis; it is whole there already
// There is nothing to gather.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, seq>, shard<seq, tp>>& x) {
#ifdef WRONG
  return all_gather<tp>(all_gather<tp>(x));
#else
  return all_gather<tp>(x);
#endif
}
