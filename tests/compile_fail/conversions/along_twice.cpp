// expect: weft: along<...> names an axis twice; name every axis once
#include <weft/weft.hpp>
using namespace weft;

struct mine : zero3 {
#ifdef WRONG
  using axis = along<dp, dp>;
#else
  using axis = along<dp, ep>;
#endif
};
using s = strategy<mesh<dp, ep>, mine>;
s::mesh program() { return {}; }
