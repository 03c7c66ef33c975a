// expect: weft: a type in strategy<mesh<...>, ...> fits no slot: name a sharding, precision, checkpointing, schedule, projections or loss policy, a communicator or a backend; docs/policies/ says what each has
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
