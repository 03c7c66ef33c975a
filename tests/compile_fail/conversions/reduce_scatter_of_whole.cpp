// expect: weft: reduce_scatter<dim, axis>(x) needs a sum pending over that axis, and x has none; slice with split<dim, axis>(x)
// The value would be counted once per rank.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, seq>>& x) {
#ifdef WRONG
  return reduce_scatter<seq, tp>(x);
#else
  return split<seq, tp>(x);
#endif
}
