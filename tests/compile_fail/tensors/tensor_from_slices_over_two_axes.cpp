// expect: weft:
// expect 1: weft: a slice isn't the whole value: convert<invariant<axis>>(x) collects the slices
// expect 2: weft: other axes shard this dimension inside of this one: gather x over those first, innermost first, by convert<invariant<axis>>(x), then over this one, and split<dim, axis>(x) it again
// expect 3: weft: a dimension is sharded over axes in another order: declare them alike, outermost first; or gather x over them, innermost first, by convert<invariant<axis>>(x)
// expect 4: weft: a dimension is sharded over axes in another order
// expect 5: weft: a whole value isn't a slice: split<dim, axis>(x)
// What is recommended, done in turns, compiles.
#include <weft/weft.hpp>
using namespace weft;
template <class... Placements>
using x_type = tensor<float, dims<batch, hidden>, Placements...>;

void program(const x_type<shard<batch, dp, tp>>& x, const x_type<shard<batch, tp>>& inner, const x_type<>& whole) {
#ifdef WRONG
#if WRONG == 1
  x_type<> y = x;
#elif WRONG == 2
  x_type<shard<batch, tp>> y = x;
#elif WRONG == 3
  x_type<shard<batch, tp, dp>> y = x;
#elif WRONG == 4
  x_type<shard<batch, dp, tp>> y = inner;
#elif WRONG == 5
  x_type<shard<batch, dp, tp>> y = whole;
#endif
#else
  const x_type<shard<batch, dp>> outer = convert<invariant<tp>>(x);
  const x_type<> all = convert<invariant<dp>>(outer);
  const x_type<shard<batch, tp>> kept = split<batch, tp>(all);
  const x_type<shard<batch, tp, dp>> other = split<batch, dp>(kept);
  const x_type<shard<batch, dp, tp>> from_inner = split<batch, tp>(split<batch, dp>(convert<invariant<tp>>(inner)));
  const x_type<shard<batch, dp, tp>> from_whole = split<batch, tp>(split<batch, dp>(whole));
#endif
}
