// expect: weft: a slice isn't the whole value: convert<invariant<axis>>(x) collects the slices
// shows: sharded_over<weft::tp>
#include <weft/weft.hpp>
using namespace weft;

using whole = tensor<float, dims<batch, hidden>>;

auto program(const tensor<float, dims<batch, hidden>, shard<hidden, tp>>& x) {
#ifdef WRONG
  return whole(x);
#else
  return whole(convert<invariant<tp>>(x));
#endif
}
