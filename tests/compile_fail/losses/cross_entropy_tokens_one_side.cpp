// expect: weft: cross_entropy needs the tokens sharded alike in logits and targets: split<dim, axis> or all_gather<axis> one of them
// Each rank has the logits of its tokens and the targets of all.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, vocab>, shard<batch, dp>>& logits,
             const tensor<std::int32_t, dims<batch>>& targets) {
#ifdef WRONG
  return cross_entropy(logits, targets);
#else
  return cross_entropy(logits, split<batch, dp>(targets));
#endif
}
