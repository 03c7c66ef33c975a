// expect: weft: local_map is given a pending sum, and a function of a sum is the sum of the functions only where it is linear: all_reduce<axis>(x) it first, or say that it is, linear_kernel{f}, and let Y be partial too
#include <weft/weft.hpp>
using namespace weft;

using row = tensor<double, dims<hidden>, partial<tp>>;
using whole = tensor<double, dims<hidden>>;
#ifdef WRONG
#if WRONG == 1
auto program(const row& x) {
  return local_map<row>(
      "square", [](auto y, auto x) { y[0] = x[0] * x[0]; }, x);
}
#elif WRONG == 2
auto program(const row& x) {
  return local_map<whole>("twice", linear_kernel{[](auto y, auto x) { y[0] = 2 * x[0]; }}, x);
}
#endif
#else
auto program(const row& x) {
  return local_map<row>("twice", linear_kernel{[](auto y, auto x) { y[0] = 2 * x[0]; }}, x);
}
#endif
