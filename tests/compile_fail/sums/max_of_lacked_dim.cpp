// expect: weft: a function along a dimension is given a tensor that lacks it
// shows: no_dimension
#include <weft/weft.hpp>
using namespace weft;

using rows = tensor<float, dims<batch, hidden>>;

auto program(const rows& x) {
#ifdef WRONG
  return max<vocab>(x);
#else
  return max<hidden>(x);
#endif
}
