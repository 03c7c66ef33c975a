// expect: weft: a slice meets a whole value in a dimension that both have: split<dim, axis> the whole one or all_gather<axis> the slice
// Both have seq, and one has only a slice of it.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, seq>, shard<seq, tp>>& a, const tensor<float, dims<batch, seq>>& b) {
#ifdef WRONG
  return a + b;
#else
  return a + split<seq, tp>(b);
#endif
}
