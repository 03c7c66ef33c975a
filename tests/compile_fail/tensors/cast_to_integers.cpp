// expect: weft: cast<T>(x) makes floating elements, of float, double, bf16 or fp16; a mask is made by a > b, ids by from_global
#include <weft/weft.hpp>
using namespace weft;

using row = tensor<float, dims<batch>>;

auto program(const row& x) {
#ifdef WRONG
#if WRONG == 1
  return cast<std::int32_t>(x);
#elif WRONG == 2
  return cast<bool>(x);
#endif
#else
  return cast<double>(x > 0);
#endif
}
