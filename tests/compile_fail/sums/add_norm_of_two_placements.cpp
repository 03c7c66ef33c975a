// expect: a norm with residual adds two tensors of the same dimensions and placement, the stream and what a block adds
// A bias has no rows: nothing is broadcast in the pass that adds and norms.
#include <weft/weft.hpp>
using namespace weft;

using x_type = tensor<float, dims<batch, hidden>>;
using r_type = tensor<float, dims<batch, hidden>, replicate<tp>>;
using gain = tensor<float, dims<hidden>>;

void program(const x_type& x, const r_type& r, const gain& w) {
#ifdef WRONG
#if WRONG == 1
  add_rms_norm(x, w, w);
#elif WRONG == 2
  add_rms_norm(x, r, w);
#elif WRONG == 3
  add_layer_norm(x, w, w, w);
#endif
#else
  add_rms_norm(x, x, w);
  rms_norm(x + r, w);
#endif
}
