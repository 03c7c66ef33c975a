// expect: a pending sum is added to a whole value, which would count once per rank: all_reduce<axis> the pending one first
// Each rank would add the bias to its part of the sum, which then has it once for every rank.
#include <weft/weft.hpp>
using namespace weft;

using up_type = tensor<float, dims<batch, ffn>, shard<ffn, tp>>;
using down_type = tensor<float, dims<ffn, hidden>, shard<ffn, tp>>;
using bias_type = tensor<float, dims<hidden>>;

auto program(const up_type& u, const down_type& down, const bias_type& b) {
#ifdef WRONG
#if WRONG == 1
  return contract<ffn>(u, down, b);
#elif WRONG == 2
  return contract_gelu<ffn>(u, down, b);
#endif
#else
  return gelu(all_reduce<tp>(contract<ffn>(u, down)) + b);
#endif
}
