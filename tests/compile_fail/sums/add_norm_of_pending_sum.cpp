// expect: a pending sum is added to a whole value, which would count once per rank: all_reduce<axis> the pending one first
// What a block adds to the stream is whole before it is added and normed.
#include <weft/weft.hpp>
using namespace weft;

using x_type = tensor<float, dims<batch, hidden>>;
using up_type = tensor<float, dims<batch, ffn>, shard<ffn, tp>>;
using down_type = tensor<float, dims<ffn, hidden>, shard<ffn, tp>>;
using norm_type = tensor<float, dims<hidden>>;

auto program(const x_type& x, const up_type& u, const down_type& down, const norm_type& w) {
#ifdef WRONG
#if WRONG == 1
  return add_rms_norm(x, contract<ffn>(u, down), w);
#elif WRONG == 2
  return add_layer_norm(x, contract<ffn>(u, down), w, w);
#endif
#else
  add_layer_norm(x, all_reduce<tp>(contract<ffn>(u, down)), w, w);
  return add_rms_norm(x, all_reduce<tp>(contract<ffn>(u, down)), w);
#endif
}
