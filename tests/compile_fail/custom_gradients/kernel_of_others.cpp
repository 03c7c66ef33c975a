// expect: weft: local_map<Y>(name, f, x, ...) calls f(y, ..., x, ...) with what this rank holds: write it as [](auto y, auto x) { ... y[i] = x[i] ... }, which changes nothing that it captures
#include <weft/weft.hpp>
using namespace weft;

using row = tensor<double, dims<hidden>>;

auto program(const row& x) {
#ifdef WRONG
#if WRONG == 1
  return local_map<row>(
      "first", [](auto y) { y[0] = 1; }, x);
#elif WRONG == 2
  return local_map<row>(
      "first", [](std::span<float> y, std::span<const float> x) { y[0] = x[0]; }, x);
#elif WRONG == 3
  int calls = 0;
  return local_map<row>(
      "first", [calls](auto y, auto x) mutable { y[0] = x[0] + ++calls; }, x);
#endif
#else
  return local_map<row>(
      "first", [](auto y, auto x) { y[0] = x[0]; }, x);
#endif
}
