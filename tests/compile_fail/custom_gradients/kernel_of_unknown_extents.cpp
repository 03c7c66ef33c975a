// expect: weft: local_map<Y>(name, f, x, ...) takes the extents of Y from x, ...: give a dimension that none of them has its extent in Y, as extent<hidden, 3>
#include <weft/weft.hpp>
using namespace weft;

using row = tensor<double, dims<hidden>>;
#ifdef WRONG
using rows = tensor<double, dims<batch, hidden>>;
#else
using rows = tensor<double, dims<extent<batch, 2>, hidden>>;
#endif

auto program(const row& x) {
  return local_map<rows>(
      "twice", [](auto y, auto x) { y[0] = x[0]; }, x);
}
