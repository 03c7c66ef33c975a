// expect: weft: concat<dim>(x, y, ...) takes tensors with the same dimensions in the same order: permute<dim...>(y) or rename<from, to>(y) one
#include <weft/weft.hpp>
using namespace weft;

using rows = tensor<float, dims<batch, hidden>>;
using columns = tensor<float, dims<hidden, batch>>;

auto program(const rows& a, const columns& b) {
#ifdef WRONG
  return concat<hidden>(a, b);
#else
  return concat<hidden>(a, permute<batch, hidden>(b));
#endif
}
