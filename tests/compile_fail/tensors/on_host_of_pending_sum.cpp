// expect: weft: a rank has only its addend of a pending sum: on_host(all_reduce<axis>(x)) has the numbers
// shows: pending_sum_over<weft::dp, weft::tp>
#include <weft/weft.hpp>
using namespace weft;

using pending = tensor<float, dims<hidden>, partial<tp>, partial<dp>>;

auto program(const pending& x) {
#ifdef WRONG
  return on_host(x);
#else
  return on_host(all_reduce<tp>(all_reduce<dp>(x)));
#endif
}
