// expect: weft: backward(loss) takes a loss that is invariant or partial: a replicated one would count once per rank
// Every rank would contribute the whole gradient of the same loss.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<seq>, shard<seq, tp>>& x) {
#ifdef WRONG
  backward(sum(square(all_gather<tp>(x))));
#else
  backward(sum(square(x)));
#endif
}
