// expect: weft: attention(q, k, v, starts, {...}) takes starts of the sequences that q is of: of the same first dimension, sharded over the same axes
// Rank 1 would cut its sequences where those of rank 0 have documents.
#include <weft/weft.hpp>
using namespace weft;

using heads_of = tensor<float, dims<batch, seq, heads, head_dim>, shard<batch, dp>>;
using whole = tensor<std::int32_t, dims<batch, seq>>;

auto program(const heads_of& q, const whole& tokens) {
#ifdef WRONG
  return attention(q, q, q, document_starts(tokens, 2));
#else
  return attention(q, q, q, document_starts(split<batch, dp>(tokens), 2));
#endif
}
