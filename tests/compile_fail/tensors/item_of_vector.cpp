// expect: weft: item(x) is the number of a scalar, and x has dimensions: sum(x) or mean(x) it, or read them all with on_host(x)
#include <weft/weft.hpp>
using namespace weft;

float program(const tensor<float, dims<hidden>>& x) {
#ifdef WRONG
  return item(x);
#else
  return item(sum(x)) + item(mean(x)) + on_host(x)[0];
#endif
}
