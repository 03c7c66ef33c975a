// expect: weft: a number is added to a pending sum, which would count it once per rank: all_reduce<axis>(x) the sum first
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, ffn>, partial<tp>>& h) {
#ifdef WRONG
  return 0.5 * h + 1;
#else
  return all_reduce<tp>(0.5 * h) + 1;
#endif
}
