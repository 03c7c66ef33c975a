// expect: weft: gather the innermost axis of a dimension first: its slices lie inside those of the outer axes
// Exchanged over the outer axis, what a rank gets of seq would not be one slice.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<seq, heads>, shard<seq, cp, tp>>& x) {
#ifdef WRONG
  return all_to_all<heads, cp>(x);
#else
  return all_to_all<heads, tp>(x);
#endif
}
