// expect: weft: cross_entropy needs the tokens sharded alike in logits and targets: split<dim, axis> or all_gather<axis> one of them
// The same number of tokens on each rank, but not the same ones.
#include <weft/weft.hpp>
using namespace weft;

template <class... Ps>
using ids = tensor<std::int32_t, dims<batch>, Ps...>;

auto program(const tensor<float, dims<batch, vocab>, shard<batch, dp, tp>>& logits,
             [[maybe_unused]] const ids<shard<batch, dp, tp>>& targets,
             [[maybe_unused]] const ids<shard<batch, tp, dp>>& other) {
#ifdef WRONG
  return cross_entropy(logits, other);
#else
  return cross_entropy(logits, targets);
#endif
}
