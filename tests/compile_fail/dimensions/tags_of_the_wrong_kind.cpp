// expect: weft:
// expect 1: weft: sum<dim...> names dimensions of the tensor, as batch or hidden, no others
// expect 2: weft: contract<dim...> names dimensions
// expect 3: weft: all_reduce<axis>(x) names a mesh axis, as dp or tp, and no dimension
// expect 4: weft: split<dim, axis>(x) names a dimension first, as ffn, and then a mesh axis, as tp
// expect 5: weft: convert<placement>(x) names a placement over one axis: shard<dim, axis>, replicate<axis>, partial<axis> or invariant<axis>
// expect 6: weft: all_gather<axis>(x) collects slices, and x's sum is pending over that axis: all_reduce<axis>(x) finishes it
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, hidden>, partial<tp>>& x) {
#ifdef WRONG
#if WRONG == 1
  const auto y = sum<tp>(x);
#elif WRONG == 2
  const auto y = contract<tp>(x, x);
#elif WRONG == 3
  const auto y = all_reduce<hidden>(x);
#elif WRONG == 4
  const auto y = split<dp, batch>(x);
#elif WRONG == 5
  const auto y = convert<tp>(x);
#elif WRONG == 6
  const auto y = all_gather<tp>(x);
#endif
#else
  sum<hidden>(x);
  split<batch, dp>(x);
  convert<invariant<tp>>(x);
  return all_reduce<tp>(x);
#endif
}
