// expect: weft: a dimension of local_map's tensors is sharded in one and lies otherwise in another, so f would meet elements that don't belong together: split<dim, axis>(x) or all_gather<axis>(x) one of them, or rename<from, to>(x) its dimension
#include <weft/weft.hpp>
using namespace weft;

using rows = tensor<double, dims<batch, hidden>, shard<hidden, tp>>;
using row = tensor<double, dims<hidden>>;
const auto kernel = [](auto y, auto x, auto b) {
  for (std::int64_t i = 0; i < y.size(); ++i) y[i] = x[i] + b[i % b.size()];
};

auto program(const rows& x, const row& b) {
#ifdef WRONG
  return local_map<rows>("bias", kernel, x, b);
#else
  return local_map<rows>("bias", kernel, x, split<hidden, tp>(b));
#endif
}
