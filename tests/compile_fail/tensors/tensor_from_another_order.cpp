// expect: weft: the tensor has these dimensions in another order: permute<dim...>(x) changes the order
#include <weft/weft.hpp>
using namespace weft;

using turned = tensor<float, dims<ffn, hidden>>;

turned program(const tensor<float, dims<hidden, ffn>>& x) {
#ifdef WRONG
  return turned(x);
#else
  return permute<ffn, hidden>(x);
#endif
}
