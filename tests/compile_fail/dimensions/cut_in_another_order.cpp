// expect: weft: a dimension is sharded over the same axes in another order on the two sides: order them alike, outermost first
// The same number of elements, but not the same ones.
#include <weft/weft.hpp>
using namespace weft;

using cp_first = tensor<float, dims<seq>, shard<seq, cp, tp>>;
using tp_first = tensor<float, dims<seq>, shard<seq, tp, cp>>;

auto program(const cp_first& a, [[maybe_unused]] const cp_first& b, [[maybe_unused]] const tp_first& c) {
#ifdef WRONG
  return a + c;
#else
  return a + b;
#endif
}
