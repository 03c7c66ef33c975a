// expect: weft: a layout places a tensor twice on one mesh axis; name every axis once
// A rank along tp can hold a slice of one dimension or the other, not both.
#include <weft/weft.hpp>
using namespace weft;

#ifdef WRONG
using wrong = tensor<float, dims<batch, seq>, shard<batch, tp>, shard<seq, tp>>;
wrong program() { return {}; }
#else
using right = tensor<float, dims<batch, seq>, shard<batch, dp>, shard<seq, tp>>;
right program() { return {}; }
#endif
