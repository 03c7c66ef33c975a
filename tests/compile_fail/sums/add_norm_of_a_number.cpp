// expect: weft: add_rms_norm(x, r, weight, eps) takes three tensors and a number
// A number where the block's output belongs; what is taken apart is no error before that.
#include <weft/weft.hpp>
using namespace weft;

using x_type = tensor<float, dims<batch, hidden>>;
using gain = tensor<float, dims<hidden>>;

void program(const x_type& x, const gain& w) {
#ifdef WRONG
  const auto [h, y] = add_rms_norm(x, 1.0, w);
#else
  add_rms_norm(x, x, w, 1.0);
#endif
}
