// expect: weft: a tensor isn't taken out of its type, to be put into another: convert<placement>(x), cast<T>(x), permute<dim...>(x) or rename<from, to>(x) change what a type says
#include <weft/weft.hpp>
using namespace weft;

using whole = tensor<float, dims<batch>>;

auto program(const tensor<float, dims<batch>, partial<tp>>& x) {
#ifdef WRONG
#if WRONG == 1
  return whole(value(x));
#elif WRONG == 2
  value v = x;
  return whole(v);
#elif WRONG == 3
  return whole(static_cast<value>(x));
#elif WRONG == 4
  value v;
  v = x;
  return whole(v);
#endif
#else
  return all_reduce<tp>(x);
#endif
}
