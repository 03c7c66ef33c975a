// expect: weft: the two sides are sharded over one axis along different dimensions: all_gather<axis> one of them or convert it with all_to_all<dim, axis>
// Each rank would have one block of the diagonal of the output.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, hidden>, shard<batch, tp>>& x,
             const tensor<float, dims<hidden, ffn>, shard<ffn, tp>>& w) {
#ifdef WRONG
  return contract<hidden>(x, w);
#else
  return contract<hidden>(all_gather<tp>(x), w);
#endif
}
