// expect: weft: an optimizer's weight is no pending sum, which would take the whole step on every rank: train the tensor that it was converted from, or all_reduce<axis> it once
// shows: pending_sum_over<weft::tp>
#include <weft/weft.hpp>
using namespace weft;

using gradient_type = tensor<float, dims<hidden>>;

void program(tensor<float, dims<hidden>, partial<tp>>& w, const gradient_type& g, adamw_state& state) {
#ifdef WRONG
  adamw_update(w, g, state, {});
#else
  auto whole = all_reduce<tp>(w);
  adamw_update(whole, g, state, {});
#endif
}
