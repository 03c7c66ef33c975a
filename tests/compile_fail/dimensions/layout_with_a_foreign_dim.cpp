// expect: weft: a placement shards a dimension that the tensor doesn't have: shard<dim, axis> names one of its dims<...>
// shows: no_dimension<weft::vocab>
// However such a type is come by; nothing could gather the dimension that isn't there.
#include <weft/weft.hpp>
using namespace weft;

using table_type = tensor<float, dims<vocab, hidden>, shard<vocab, tp>>;

#ifdef WRONG
#if WRONG == 1
auto program(const tensor<float, dims<batch, hidden>, shard<vocab, tp>>& x) { return convert<invariant<tp>>(x); }
#elif WRONG == 2
auto program(context& ctx) { return ones<basic_tensor<float, dims<hidden>, layout_of<table_type>>>(ctx, {4}); }
#elif WRONG == 3
struct module {
  tensor<float, dims<hidden>, shard<hidden, dp>, shard<vocab, tp>> bias;
};
#endif
#else
auto program(const table_type& x) { return convert<invariant<tp>>(x); }
#endif
