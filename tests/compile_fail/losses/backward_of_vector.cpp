// expect: weft: backward(loss) takes a scalar: sum or average it first
// Only a scalar has a gradient.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<seq>>& x) {
#ifdef WRONG
  backward(square(x));
#else
  backward(mean(square(x)));
#endif
}
