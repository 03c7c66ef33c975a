// expect: weft: the norm of a pending sum isn't that of its addends: all_reduce<axis> or reduce_scatter<dim, axis> the gradient first
#include <weft/weft.hpp>
using namespace weft;

double program(const tensor<float, dims<hidden>, partial<dp>>& g, const tensor<float, dims<ffn>>& h) {
#ifdef WRONG
  return gradient_norm(h, g);
#else
  return gradient_norm(h, all_reduce<dp>(g)) + gradient_norm(reduce_scatter<hidden, dp>(g));
#endif
}
