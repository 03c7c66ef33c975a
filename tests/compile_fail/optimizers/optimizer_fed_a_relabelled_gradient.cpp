// expect: weft: a pending sum isn't a tensor of whole values, each rank holds one addend: all_reduce<axis>(x) finishes the sum
// The cure that the compiler's refusal of a pending gradient seems to ask for.
#include <weft/weft.hpp>
using namespace weft;

using weight_type = tensor<float, dims<hidden>, replicate<dp>>;

void program(weight_type& w, adamw_state& state) {
#ifdef WRONG
  adamw_update(w, weight_type(w.grad()), state, {});
#else
  adamw_update(w, all_reduce<dp>(w.grad()), state, {});
#endif
}
