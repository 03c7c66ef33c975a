// expect: weft: the gradient has another element type; cast<T>(x) it
// Nothing is converted silently.
#include <weft/weft.hpp>
using namespace weft;

using weight_type = tensor<float, dims<hidden>>;

auto program(weight_type& w, adamw_state& state) {
#ifdef WRONG
  adamw_update(w, cast<bf16>(w.grad()), state, {});
#else
  adamw_update(w, w.grad(), state, {});
#endif
}
