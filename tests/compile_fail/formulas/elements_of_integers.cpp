// expect: takes floating elements
// Integers are ids and masks: what computes is told so at its door, and not by kernels.
#include <weft/weft.hpp>
using namespace weft;

using counts = tensor<std::int32_t, dims<batch, hidden>>;
using mask = tensor<std::uint8_t, dims<batch, hidden>>;
using floats = tensor<float, dims<batch, hidden>>;

void program(const counts& n, const mask& m, const floats& x) {
#ifdef WRONG
#if WRONG == 1
  mean(n);
#elif WRONG == 2
  n + x;
#elif WRONG == 3
  m* x;
#elif WRONG == 4
  silu(n);
#endif
#else
  mean(cast<float>(n));
  cast<float>(n) + x;
  cast<float>(m) * x;
  where(m, x, x);
  silu(cast<bf16>(n));
#endif
}
