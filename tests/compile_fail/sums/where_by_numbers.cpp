// expect: weft: where(mask, a, b) takes a mask of uint8, as a > b makes it
#include <weft/weft.hpp>
using namespace weft;

using row = tensor<float, dims<batch>>;

auto program(const row& a, const row& b) {
#ifdef WRONG
  return where(a, a, b);
#else
  return where(a > 0, a, b);
#endif
}
