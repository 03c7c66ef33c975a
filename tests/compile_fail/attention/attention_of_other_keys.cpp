// expect: weft: attention(q, k, v) doesn't find its dimensions in k or v, [batch, seq, kv_heads, head_dim]: name their own, attention<seq, heads, head_dim, keys, kv_heads>(q, k, v), or rename<from, to>(k)
// shows: no_dimension<weft::seq>
#include <weft/weft.hpp>
using namespace weft;

struct source : dim_tag {
  static constexpr std::string_view name = "source";
};
using queries = tensor<float, dims<batch, seq, heads, head_dim>>;
using keys = tensor<float, dims<batch, source, kv_heads, head_dim>>;

auto program(const queries& q, const keys& k) {
#ifdef WRONG
  return attention(q, k, k);
#else
  return attention<seq, heads, head_dim, source>(q, k, k);
#endif
}
