// expect: weft: the two tensors have different static extents in a dimension that both have
// Known at compile time, refused at compile time.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, extent<hidden, 8>>>& x,
             [[maybe_unused]] const tensor<float, dims<extent<hidden, 9>>>& nine,
             [[maybe_unused]] const tensor<float, dims<extent<hidden, 8>>>& eight) {
#ifdef WRONG
  return x * nine;
#else
  return x * eight;
#endif
}
