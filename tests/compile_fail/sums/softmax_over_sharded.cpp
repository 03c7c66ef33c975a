// expect: weft: softmax<dim>(x) needs the dimension whole on every rank: all_gather<axis> or all_to_all<dim, axis> it first
// Each rank would normalise over its slice of the vocabulary alone.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, vocab>, shard<vocab, tp>>& logits) {
#ifdef WRONG
  return softmax<vocab>(logits);
#else
  return softmax<vocab>(all_gather<tp>(logits));
#endif
}
