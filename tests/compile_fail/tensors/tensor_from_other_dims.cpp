// expect: weft: the tensor has other dimensions: rename<from, to>(x) changes a dimension's name; otherwise a tensor is made by an operator or a creator, not from another tensor
#include <weft/weft.hpp>
using namespace weft;

using wanted = tensor<float, dims<batch, hidden>>;

wanted program(const tensor<float, dims<seq, hidden>>& x) {
#ifdef WRONG
  return wanted(x);
#else
  return rename<seq, batch>(x);
#endif
}
