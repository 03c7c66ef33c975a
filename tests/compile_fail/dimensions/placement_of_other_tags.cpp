// expect: weft:
// expect 1: weft: shard<dim, axis> names a dimension first, as batch, and then mesh axes, as dp or tp: shard<batch, dp>
// expect 2: weft: replicate<axis>, partial<axis> and invariant<axis> name mesh axes, as dp or tp, and no dimensions
// expect 3: weft: a placement is shard<dim, axis>, replicate<axis>, partial<axis> or invariant<axis>; in a tensor's type they stand behind its dims<...>
// expect 4: weft: a placement is shard<dim, axis>
// expect 5: weft: convert<placement>(x) names a placement over one axis: shard<dim, axis>, replicate<axis>
// expect 6: weft: convert<placement>(x) names a placement over one axis
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, hidden>>& x) {
#ifdef WRONG
#if WRONG == 1
  tensor<float, dims<batch>, shard<tp, batch>> y;
#elif WRONG == 2
  tensor<float, dims<batch>, partial<hidden>> y;
#elif WRONG == 3
  tensor<float, dims<batch>, tp> y;
#elif WRONG == 4
  tensor<float, batch, hidden> y;
#elif WRONG == 5
  return convert<shard<tp, batch>>(x);
#elif WRONG == 6
  return convert<replicate<batch>>(x);
#endif
#else
  tensor<float, dims<batch>, shard<batch, tp>, partial<dp>> y;
  return convert<replicate<dp>>(convert<shard<batch, tp>>(x));
#endif
}
