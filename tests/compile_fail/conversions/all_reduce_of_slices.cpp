// expect: weft: all_reduce<axis>(x) needs a sum pending over that axis, and x is sharded over it: all_gather<axis>(x) collects the slices; to add them up, all_reduce<axis>(sum<dim>(x))
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, ffn>, shard<ffn, tp>>& h) {
#ifdef WRONG
  return all_reduce<tp>(h);
#else
  auto whole = all_gather<tp>(h);
  auto added = all_reduce<tp>(sum<ffn>(h));
  return whole * added;
#endif
}
