// expect: weft: a tensor of another element type isn't read as this one: cast<T>(x) converts its numbers
// A bf16 tensor's bytes are no floats.
#include <weft/weft.hpp>
using namespace weft;

using floats = tensor<float, dims<batch, hidden>>;

floats program(const tensor<bf16, dims<batch, hidden>>& x) {
#ifdef WRONG
  return floats(x);
#else
  return cast<float>(x);
#endif
}
