// expect: weft: a dimension appears twice in a tensor; rename<from, to>(x) one of them
// Two dimensions with one name: which would a contraction sum over?
#include <weft/weft.hpp>
using namespace weft;

#ifdef WRONG
using scores = tensor<float, dims<batch, seq, seq>>;
scores program() { return {}; }
#else
using scores = tensor<float, dims<batch, seq, vocab>>;
scores program() { return {}; }
#endif
