// expect: weft: a strategy names two pipeline schedules; keep one
// Each slot takes one policy.
#include <weft/weft.hpp>
using namespace weft;

struct other : one_f_one_b {
  static constexpr std::string_view name = "other";
};

#ifdef WRONG
using s = strategy<mesh<pp>, one_f_one_b, other>;
#else
using s = strategy<mesh<pp>, other>;
#endif
s::precision program() { return {}; }
