// expect: weft: gather the innermost axis of a dimension first: its slices lie inside those of the outer axes
// Slices over dp lie inside those over cp: without cp they are not one piece.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, seq>, shard<seq, cp, tp>>& x) {
#ifdef WRONG
  return all_gather<cp>(x);
#else
  return all_gather<cp>(all_gather<tp>(x));
#endif
}
