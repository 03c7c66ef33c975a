// expect: weft: a pending sum meets a slice: finish it first with all_reduce<axis> or reduce_scatter<dim, axis>
// One side is an addend of everything, the other a slice of it.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, seq>, partial<tp>>& a,
             const tensor<float, dims<batch, seq>, shard<seq, tp>>& b) {
#ifdef WRONG
  return a + b;
#else
  return reduce_scatter<seq, tp>(a) + b;
#endif
}
