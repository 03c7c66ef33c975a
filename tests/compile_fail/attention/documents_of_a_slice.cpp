// expect: weft: document_starts(tokens, end) takes tokens of int32 [batch, seq], the sequence whole on every rank: all_gather<axis>(tokens) it first
// A document that began on the rank before would begin anew here.
#include <weft/weft.hpp>
using namespace weft;

using slices = tensor<std::int32_t, dims<batch, seq>, shard<seq, tp>>;

auto program(const slices& tokens) {
#ifdef WRONG
  return document_starts(tokens, 2);
#else
  return document_starts(all_gather<tp>(tokens), 2);
#endif
}
