// expect: weft: concat<dim>(x, y, ...) needs the dimension whole on every rank, since the slices of two tensors are no slice of both: all_gather<axis>(x) what is sharded along it
#include <weft/weft.hpp>
using namespace weft;

using rows = tensor<float, dims<batch, hidden>, shard<hidden, tp>>;

auto program(const rows& a, const rows& b) {
#ifdef WRONG
  return concat<hidden>(a, b);
#else
  return concat<hidden>(all_gather<tp>(a), all_gather<tp>(b));
#endif
}
auto other(const rows& a, const rows& b) { return concat<batch>(a, b); }
