// expect: weft: all_reduce<axis>(x) needs a sum pending over that axis, and x has none: it would be counted once per rank; remove this all_reduce
// A second all-reduce would multiply the value by the number of ranks.
#include <weft/weft.hpp>
using namespace weft;

using x_type = tensor<float, dims<batch, hidden>>;
using up_type = tensor<float, dims<hidden, ffn>, shard<ffn, tp>>;
using down_type = tensor<float, dims<ffn, hidden>, shard<ffn, tp>>;

auto program(const tensor<float, dims<batch, ffn>, shard<ffn, tp>>& h, const down_type& down) {
#ifdef WRONG
  return all_reduce<tp>(all_reduce<tp>(contract<ffn>(h, down)));
#else
  return all_reduce<tp>(contract<ffn>(h, down));
#endif
}
