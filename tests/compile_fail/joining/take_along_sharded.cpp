// expect: weft: take<dim>(x, ids) needs the dimension whole on every rank, since ids count in all of it: all_gather<axis>(x) it first, or embedding(ids, x) for a table whose rows are sharded
#include <weft/weft.hpp>
using namespace weft;

using rows = tensor<float, dims<batch, vocab>, shard<vocab, tp>>;
using ids = tensor<std::int32_t, dims<batch>>;

auto program(const rows& x, const ids& at) {
#ifdef WRONG
  return take<vocab>(x, at);
#else
  return take<vocab>(all_gather<tp>(x), at);
#endif
}
