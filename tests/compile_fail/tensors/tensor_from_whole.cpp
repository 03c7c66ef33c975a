// expect: weft: a whole value isn't a slice: split<dim, axis>(x) keeps this rank's slice
#include <weft/weft.hpp>
using namespace weft;

using slices = tensor<float, dims<batch, hidden>, shard<hidden, tp>>;

auto program(const tensor<float, dims<batch, hidden>>& x) {
#ifdef WRONG
  return slices(x);
#else
  return slices(split<hidden, tp>(x));
#endif
}
