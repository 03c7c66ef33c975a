// expect: names another axis than x's sum is pending over: name that of this pending_sum_over<axis>
// shows: pending_sum_over<weft::dp
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, hidden>, partial<dp>>& x) {
#ifdef WRONG
#if WRONG == 1
  return all_reduce<tp>(x);
#elif WRONG == 2
  return reduce_scatter<batch, tp>(x);
#endif
#else
  return all_reduce<dp>(x);
#endif
}
