// expect: weft: an optimizer takes gradients with nothing pending: all_reduce<axis> or reduce_scatter<dim, axis> it first
// A replicated weight has a pending gradient: each rank would step by its own addend.
#include <weft/weft.hpp>
using namespace weft;

using weight_type = tensor<float, dims<hidden>, replicate<dp>>;

auto program(weight_type& w, adamw_state& state) {
#ifdef WRONG
  adamw_update(w, w.grad(), state, {});
#else
  adamw_update(w, all_reduce<dp>(w.grad()), state, {});
#endif
}
