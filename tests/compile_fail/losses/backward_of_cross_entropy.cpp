// expect: weft: backward(loss) takes one tensor of no dimensions: backward(sum(x)), or backward(l.sum) of a cross_entropy l
#include <weft/weft.hpp>
using namespace weft;

void program(const tensor<float, dims<batch, vocab>>& logits, const tensor<std::int32_t, dims<batch>>& targets) {
  auto l = cross_entropy(logits, targets);
#ifdef WRONG
  backward(l);
#else
  backward(l.sum);
#endif
}
