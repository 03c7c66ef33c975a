// expect: weft: a new tensor can't be partial: make it whole and convert<partial<axis>> it, so that it is counted once
// Ones on every rank would be as many as there are ranks.
#include <weft/weft.hpp>
using namespace weft;

auto program(context& ctx) {
#ifdef WRONG
  return ones<tensor<float, dims<hidden>, partial<tp>>>(ctx, {8});
#else
  return convert<partial<tp>>(ones<tensor<float, dims<hidden>>>(ctx, {8}));
#endif
}
