// expect: weft: sequence_parallel shards the sequence over tp, which the mesh lacks
// There is no axis to shard the sequence over.
#include <weft/weft.hpp>
using namespace weft;

#ifdef WRONG
using s = strategy<mesh<dp>, sequence_parallel>;
s::precision program() { return {}; }
#else
using s = strategy<mesh<dp, tp>, sequence_parallel>;
s::precision program() { return {}; }
#endif
