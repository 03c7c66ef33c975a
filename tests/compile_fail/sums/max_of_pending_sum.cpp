// expect: weft: a function of a row is given pending sums, and a function of a sum is not the sum of the functions: all_reduce<axis>(x) it first
// The largest addend is not the largest sum. The compiler also says which axis it is.
// shows: pending_sum_over
#include <weft/weft.hpp>
using namespace weft;

using sums = tensor<float, dims<batch, hidden>, partial<tp>>;

auto program(const sums& x) {
#ifdef WRONG
#if WRONG == 1
  return max<hidden>(x);
#elif WRONG == 2
  return argmax<hidden>(x);
#endif
#else
  return max<hidden>(all_reduce<tp>(x));
#endif
}
