// expect: weft: a dimension appears twice in a tensor; rename<from, to>(x) one of them
// Two dimensions with one name: which would a contraction sum over?
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<seq, hidden>>& x) {
#ifdef WRONG
  return contract<hidden>(x, rename<ffn, seq>(rename<seq, ffn>(x))) + tensor<float, dims<seq, seq>>();
#else
  return contract<hidden>(x, rename<seq, ffn>(x));
#endif
}
