// expect: weft: a pending sum is added to a whole value, which would count once per rank: all_reduce<axis> the pending one first
// The Megatron block without its all-reduce: the residual would be counted once per rank.
#include <weft/weft.hpp>
using namespace weft;

using x_type = tensor<float, dims<batch, hidden>>;
using up_type = tensor<float, dims<hidden, ffn>, shard<ffn, tp>>;
using down_type = tensor<float, dims<ffn, hidden>, shard<ffn, tp>>;

auto program(const x_type& x, const up_type& up, const down_type& down) {
#ifdef WRONG
  return x + contract<ffn>(silu(contract<hidden>(x, up)), down);
#else
  return x + all_reduce<tp>(contract<ffn>(silu(contract<hidden>(x, up)), down));
#endif
}
