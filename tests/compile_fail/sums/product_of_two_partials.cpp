// expect: weft: a product of two pending sums is not the sum of the products: all_reduce<axis> one of them first
// shows: pending_sum_over<weft::tp
// (a + b) * (c + d) is not a * c + b * d.
#include <weft/weft.hpp>
using namespace weft;

using pending = tensor<float, dims<batch, seq>, partial<tp>>;

auto program(const pending& a, const pending& b) {
#ifdef WRONG
  return a * b;
#else
  return a * all_reduce<tp>(b);
#endif
}
