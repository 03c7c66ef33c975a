// expect: weft: a pending sum is added to a whole value, which would count once per rank: all_reduce<axis> the pending one first
// Once the pending part is summed over the ranks, so is the whole one, which every rank has.
#include <weft/weft.hpp>
using namespace weft;

using rows = tensor<float, dims<batch, hidden>>;
using sums = tensor<float, dims<batch, hidden>, partial<tp>>;

auto program(const rows& a, const sums& b) {
#ifdef WRONG
  return concat<hidden>(a, b);
#else
  return concat<hidden>(a, all_reduce<tp>(b));
#endif
}
