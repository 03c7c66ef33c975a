// expect: gather them by convert<invariant<axis>>(x) in place of all_gather<axis>(x)
// shows: replicated_over<weft::tp
// Every rank would count the loss of the same logits.
#include <weft/weft.hpp>
using namespace weft;

void program(const tensor<float, dims<batch, vocab>, shard<vocab, tp>>& logits,
             const tensor<std::int32_t, dims<batch>>& targets) {
#ifdef WRONG
  backward(cross_entropy(all_gather<tp>(logits), targets).sum);
#else
  backward(cross_entropy(convert<invariant<tp>>(logits), targets).sum);
#endif
}
