// expect: weft: a non-linear function of a pending sum is not the sum of the functions: all_reduce<axis> it first
// silu(a + b) is not silu(a) + silu(b).
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, ffn>, partial<tp>>& h) {
#ifdef WRONG
  return silu(h);
#else
  return silu(all_reduce<tp>(h));
#endif
}
