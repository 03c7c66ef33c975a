// expect: weft: cross_entropy(logits, targets) takes logits [..., vocab] and targets [...]
// Logits run over batch, then seq; targets must too.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, seq, vocab>>& logits,
             const tensor<std::int32_t, dims<seq, batch>>& targets) {
#ifdef WRONG
  return cross_entropy(logits, targets);
#else
  return cross_entropy(logits, permute<batch, seq>(targets));
#endif
}
