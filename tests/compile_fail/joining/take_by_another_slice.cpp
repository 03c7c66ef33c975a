// expect: weft: a slice meets a whole value in a dimension that both have: split<dim, axis> the whole one or all_gather<axis> the slice
// Each rank has its rows of x and the ids of all rows.
#include <weft/weft.hpp>
using namespace weft;

using rows = tensor<float, dims<batch, vocab>, shard<batch, dp>>;
using ids = tensor<std::int32_t, dims<batch>>;

auto program(const rows& x, const ids& at) {
#ifdef WRONG
  return take<vocab>(x, at);
#else
  return take<vocab>(x, split<batch, dp>(at));
#endif
}
