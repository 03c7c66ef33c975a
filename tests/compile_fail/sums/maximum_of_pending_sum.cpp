// expect: weft: a formula that is not linear is given a pending sum, and a function of a sum is not the sum of the functions: all_reduce<axis>(x) it first
// The largest of the addends is not the largest of the sums.
#include <weft/weft.hpp>
using namespace weft;

using sums = tensor<float, dims<batch>, partial<tp>>;

auto program(const sums& a, const sums& b) {
#ifdef WRONG
  return maximum(a, b);
#else
  return maximum(all_reduce<tp>(a), all_reduce<tp>(b));
#endif
}
