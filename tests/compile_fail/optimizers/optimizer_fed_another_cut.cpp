// expect: weft: the gradient is sharded in another way than the tensor: split<dim, axis> or all_gather<axis> it first
// As many elements, but of other columns.
#include <weft/weft.hpp>
using namespace weft;

using weight_type = tensor<float, dims<hidden, ffn>, shard<hidden, tp>>;

auto program(weight_type& w, adamw_state& state) {
#ifdef WRONG
  adamw_update(w, all_to_all<ffn, tp>(w.grad()), state, {});
#else
  adamw_update(w, w.grad(), state, {});
#endif
}
