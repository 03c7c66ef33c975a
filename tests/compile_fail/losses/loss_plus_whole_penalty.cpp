// expect: weft: a pending sum is added to a whole value, which would count once per rank: all_reduce<axis> the pending one first, or convert<partial<axis>>(x) the whole one, which is then counted once
#include <weft/weft.hpp>
using namespace weft;

void program(const tensor<float, dims<batch>, shard<batch, dp>>& nats, const tensor<float, dims<hidden>>& w) {
  const auto pending = sum(nats), penalty = sum(nats);
  const auto whole = sum(square(w));
#ifdef WRONG
  backward(pending + whole);
#else
  backward(pending + convert<partial<dp>>(whole));
  backward(all_reduce<dp>(penalty) + whole);
#endif
}
