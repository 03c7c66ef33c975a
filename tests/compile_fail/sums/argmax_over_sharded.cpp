// expect: weft: a function of a row needs it whole on every rank, and its dimension is sharded: all_gather<axis>(x) it first, or all_to_all<dim, axis>(x), which shards another dimension
// Every rank would take the largest of its slice, and count from the slice's beginning.
// shows: sharded_over
#include <weft/weft.hpp>
using namespace weft;

using logits = tensor<float, dims<batch, vocab>, shard<vocab, tp>>;

auto program(const logits& x) {
#ifdef WRONG
  return argmax<vocab>(x);
#else
  return argmax<vocab>(all_gather<tp>(x));
#endif
}
auto other(const logits& x) { return argmax<vocab>(all_to_all<batch, tp>(x)); }
