// expect: weft: a rank has only its addend of a pending sum: item(all_reduce<axis>(x)) is the number
// shows: pending_sum_over<weft::dp>
// The loss that a rank logs, or decides by, is the whole batch's.
#include <weft/weft.hpp>
using namespace weft;

float program(const tensor<float, dims<batch, hidden>, shard<batch, dp>>& x) {
#ifdef WRONG
  return item(mean(square(x)));
#else
  return item(all_reduce<dp>(mean(square(x))));
#endif
}
