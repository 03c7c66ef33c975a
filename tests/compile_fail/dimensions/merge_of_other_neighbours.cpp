// expect: weft: merge<out, outer, inner>(x)
// expect 1: joins two dimensions of which inner follows outer: permute<dim...>(x) brings them together
// expect 2: joins two dimensions of which inner follows outer: permute<dim...>(x) brings them together
// expect 3: needs the inner dimension whole on every rank: all_gather<axis>(x) it
// expect 4: calls the one dimension as another of x: name a third
// expect 5: names a dimension that x lacks
// What lies together is one dimension; what ranks have slices of inside of it is not.
#include <weft/weft.hpp>
using namespace weft;

using heads_apart = tensor<float, dims<batch, heads, seq, head_dim>, shard<batch, dp>, shard<seq, tp>>;

auto program(const heads_apart& x) {
#ifdef WRONG
#if WRONG == 1
  return merge<hidden, heads, head_dim>(x);
#elif WRONG == 2
  return merge<hidden, head_dim, seq>(x);
#elif WRONG == 3
  return merge<hidden, heads, seq>(x);
#elif WRONG == 4
  return merge<batch, seq, head_dim>(x);
#elif WRONG == 5
  return merge<hidden, heads, ffn>(x);
#endif
#else
  return merge<hidden, heads, head_dim>(permute<batch, seq, heads, head_dim>(x));
#endif
}
auto other(const heads_apart& x) { return merge<hidden, seq, head_dim>(x); }
