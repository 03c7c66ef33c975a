// expect: weft: slice<dim>(x) needs the dimension whole on every rank: all_gather<axis> it first
// Positions are global; a rank has only some of them.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, seq>, shard<seq, tp>>& x) {
#ifdef WRONG
  return slice<seq>(x, 0, 4);
#else
  return slice<seq>(all_gather<tp>(x), 0, 4);
#endif
}
