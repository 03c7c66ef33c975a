// expect: weft: the two tensors have different element types; cast<T>(x) one of them
// Nothing is converted silently.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<bf16, dims<batch, hidden>>& x, const tensor<float, dims<hidden>>& bias) {
#ifdef WRONG
  return x + bias;
#else
  return cast<float>(x) + bias;
#endif
}
