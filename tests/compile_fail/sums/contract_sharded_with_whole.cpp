// expect: weft: the contracted dimension is sharded on one side only: shard the other side the same way with split<dim, axis>, or all_gather<axis> this one
// One side holds slices of the dimension that is summed, the other all of it.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, ffn>, shard<ffn, tp>>& h, const tensor<float, dims<ffn, hidden>>& down) {
#ifdef WRONG
  return contract<ffn>(h, down);
#else
  return contract<ffn>(h, split<ffn, tp>(down));
#endif
}
