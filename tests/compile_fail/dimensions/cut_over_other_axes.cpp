// expect: weft: a slice meets a whole value in a dimension that both have
// One dimension, sharded over as many axes on both sides, but over others: to order them alike doesn't help.
#include <weft/weft.hpp>
using namespace weft;

using over_tp = tensor<float, dims<ffn>, shard<ffn, tp>>;
using over_dp = tensor<float, dims<ffn>, shard<ffn, dp>>;

auto program(const over_tp& a, [[maybe_unused]] const over_tp& b, [[maybe_unused]] const over_dp& c) {
#ifdef WRONG
  return a + c;
#else
  return a + b;
#endif
}
