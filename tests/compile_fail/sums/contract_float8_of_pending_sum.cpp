// expect: weft: contract_float8 rounds what it multiplies, and a pending sum rounded is not the sum of its addends rounded: all_reduce<axis> it first
#include <weft/weft.hpp>
using namespace weft;

using h_type = tensor<float, dims<batch, ffn>, shard<ffn, tp>>;
using down_type = tensor<float, dims<ffn, hidden>, shard<ffn, tp>>;
using head_type = tensor<float, dims<hidden, vocab>>;

auto program(const h_type& h, const down_type& down, const head_type& head) {
#ifdef WRONG
  return contract_float8<hidden>(contract<ffn>(h, down), head);
#else
  return contract_float8<hidden>(all_reduce<tp>(contract<ffn>(h, down)), head);
#endif
}
