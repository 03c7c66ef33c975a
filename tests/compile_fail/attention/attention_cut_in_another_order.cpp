// expect: weft: attention needs batch or heads sharded alike for queries, keys and values, and the sequence whole
// The same number of heads on each rank, but not the same ones.
#include <weft/weft.hpp>
using namespace weft;

template <class... Ps>
using four = tensor<float, dims<batch, seq, heads, head_dim>, Ps...>;

auto program(const four<shard<heads, dp, tp>>& q, [[maybe_unused]] const four<shard<heads, dp, tp>>& k,
             [[maybe_unused]] const four<shard<heads, tp, dp>>& other) {
#ifdef WRONG
  return attention(q, other, other);
#else
  return attention(q, k, k);
#endif
}
