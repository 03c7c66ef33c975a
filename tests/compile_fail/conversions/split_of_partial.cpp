// expect: weft: split<dim, axis>(x) takes its slice from a value that is whole on that axis; reduce_scatter a partial one, all_to_all a sharded one
// A slice of an addend is not a slice of the sum.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, seq>, partial<tp>>& x) {
#ifdef WRONG
  return split<seq, tp>(x);
#else
  return reduce_scatter<seq, tp>(x);
#endif
}
