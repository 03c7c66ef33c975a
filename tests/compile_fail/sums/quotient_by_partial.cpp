// expect: weft: a quotient is not linear in its divisor: all_reduce<axis> the pending divisor first
// a / (b + c) is not a / b + a / c.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch>>& a, const tensor<float, dims<batch>, partial<tp>>& b) {
#ifdef WRONG
  return a / b;
#else
  return a / all_reduce<tp>(b);
#endif
}
