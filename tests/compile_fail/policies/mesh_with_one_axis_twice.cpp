// expect: weft: a mesh names an axis twice; name every axis once
#include <weft/weft.hpp>
using namespace weft;

int program() {
#ifdef WRONG
  return mesh<dp, tp, dp>::ndim;
#else
  return mesh<dp, tp, pp>::ndim;
#endif
}
