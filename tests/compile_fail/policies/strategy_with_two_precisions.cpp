// expect: weft: a strategy names two precision policies; keep one
// Each slot takes one policy.
#include <weft/weft.hpp>
using namespace weft;

#ifdef WRONG
using s = strategy<mesh<dp>, bf16_mixed, zero3, fp32>;
s::precision program() { return {}; }
#else
using s = strategy<mesh<dp>, bf16_mixed, zero3>;
s::precision program() { return {}; }
#endif
