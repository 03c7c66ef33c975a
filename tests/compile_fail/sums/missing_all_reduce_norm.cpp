// expect: weft: rms_norm of a pending sum is not the sum of the norms: all_reduce<axis> it first
// The next operator is not linear: it needs the sum, not an addend.
#include <weft/weft.hpp>
using namespace weft;

using x_type = tensor<float, dims<batch, hidden>>;
using up_type = tensor<float, dims<hidden, ffn>, shard<ffn, tp>>;
using down_type = tensor<float, dims<ffn, hidden>, shard<ffn, tp>>;
using norm_type = tensor<float, dims<hidden>>;

auto program(const tensor<float, dims<batch, ffn>, shard<ffn, tp>>& h, const down_type& down, const norm_type& w) {
#ifdef WRONG
  return rms_norm(contract<ffn>(h, down), w);
#else
  return rms_norm(all_reduce<tp>(contract<ffn>(h, down)), w);
#endif
}
