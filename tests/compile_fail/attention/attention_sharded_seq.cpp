// expect: weft: attention needs batch or heads sharded alike for queries, keys and values, and the sequence whole: all_gather<axis> the sequence or all_to_all<heads, axis> it
// Queries would see only the keys of their own slice.
#include <weft/weft.hpp>
using namespace weft;

using slices = tensor<float, dims<batch, seq, heads, head_dim>, shard<seq, tp>>;

auto program(const slices& q, const slices& k, const slices& v) {
#ifdef WRONG
  return attention(q, k, v);
#else
  return attention(all_to_all<heads, tp>(q), all_to_all<heads, tp>(k), all_to_all<heads, tp>(v));
#endif
}
