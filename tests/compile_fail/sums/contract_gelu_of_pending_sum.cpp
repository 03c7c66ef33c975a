// expect: gelu of a pending sum is not the sum of the ranks' gelus: all_reduce<axis> the product, then gelu(x)
// The bias is pending too, so the sum may be; gelu of it may not.
#include <weft/weft.hpp>
using namespace weft;

using up_type = tensor<float, dims<batch, ffn>, shard<ffn, tp>>;
using down_type = tensor<float, dims<ffn, hidden>, shard<ffn, tp>>;
using bias_type = tensor<float, dims<hidden>, partial<tp>>;

auto program(const up_type& u, const down_type& down, const bias_type& b) {
#ifdef WRONG
  return contract_gelu<ffn>(u, down, b);
#else
  return gelu(all_reduce<tp>(contract<ffn>(u, down, b)));
#endif
}
