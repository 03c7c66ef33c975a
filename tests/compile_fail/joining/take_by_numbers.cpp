// expect: weft: take<dim>(x, ids) takes ids of int32, of other dimensions than the one that they count in: rename<from, to>(ids)
#include <weft/weft.hpp>
using namespace weft;

using rows = tensor<float, dims<batch, vocab>>;

auto program(const rows& x) {
#ifdef WRONG
#if WRONG == 1
  return take<vocab>(x, max<vocab>(x));
#elif WRONG == 2
  return take<vocab>(x, tensor<std::int32_t, dims<vocab>>{});
#endif
#else
  return take<vocab>(x, argmax<vocab>(x));
#endif
}
