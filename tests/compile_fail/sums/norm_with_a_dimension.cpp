// expect: takes its dimension from its weight: leave out the dimension in <>
// softmax<hidden>(x) names its dimension, so a norm's is named too.
#include <weft/weft.hpp>
using namespace weft;

using x_type = tensor<float, dims<batch, hidden>>;
using gain = tensor<float, dims<hidden>>;

void program(const x_type& x, const gain& w, const gain& b) {
#ifdef WRONG
#if WRONG == 1
  const auto y = rms_norm<hidden>(x, w, 1e-6);
#elif WRONG == 2
  const auto y = layer_norm<hidden>(x, w, b);
#elif WRONG == 3
  const auto [h, y] = add_rms_norm<hidden>(x, x, w);
#elif WRONG == 4
  const auto [h, y] = add_layer_norm<hidden>(x, x, w, b);
#endif
#else
  rms_norm(layer_norm(x, w, b), w, 1e-6);
  add_rms_norm(x, x, w);
  add_layer_norm(x, x, w, b);
#endif
}
