// expect: weft: attention(q, k, v) pairs queries with the keys of their own sequence: the first dimension is the same in all three; rename<from, to>(k) it
#include <weft/weft.hpp>
using namespace weft;

using queries = tensor<float, dims<batch, seq, heads, head_dim>>;
using keys = tensor<float, dims<layer, seq, heads, head_dim>>;

auto program(const queries& q, const keys& k) {
#ifdef WRONG
  return attention(q, k, k);
#else
  return attention(q, rename<layer, batch>(k), rename<layer, batch>(k));
#endif
}
