// expect: weft: attention needs batch or heads sharded alike for queries, keys and values, and the sequence whole
// Query heads are split, key heads are not.
#include <weft/weft.hpp>
using namespace weft;

template <class... Ps>
using four = tensor<float, dims<batch, seq, heads, head_dim>, Ps...>;

auto program(const four<shard<heads, tp>>& q, const four<>& k, const four<>& v) {
#ifdef WRONG
  return attention(q, k, v);
#else
  return attention(q, split<heads, tp>(k), split<heads, tp>(v));
#endif
}
