// expect: chooses between tensors: write a number as full<tensor<float, dims<>>>(ctx, {}, number), of x's element type, which is broadcast
// expect 1: weft: maximum(a, b)
// expect 2: weft: minimum(a, b)
// expect 3: weft: where(mask, a, b)
#include <weft/weft.hpp>
using namespace weft;

auto program(context& ctx, const tensor<float, dims<batch, hidden>, shard<batch, dp>>& x) {
#ifdef WRONG
#if WRONG == 1
  return maximum(x, 0.0);
#elif WRONG == 2
  return minimum(1, x);
#elif WRONG == 3
  return where(x > 0.0, x, 0.0f);
#endif
#else
  const auto zero = full<tensor<float, dims<>>>(ctx, {}, 0);
  return where(x > 0.0, maximum(x, zero), minimum(zero, x));
#endif
}
