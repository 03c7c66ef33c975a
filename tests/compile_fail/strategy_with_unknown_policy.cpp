// expect: weft: a strategy names two communicators, or a type that fits no policy concept; see policy/ for what each slot asks
// A type that fits no slot.
#include <weft/weft.hpp>
using namespace weft;

struct typo {};

#ifdef WRONG
using s = strategy<mesh<dp>, threads, typo>;
s::precision program() { return {}; }
#else
using s = strategy<mesh<dp>, threads>;
s::precision program() { return {}; }
#endif
