// expect: weft: attention(q, k, v) takes q as [batch, seq, heads, head_dim], k and v as [batch, seq, kv_heads, head_dim]: permute<batch, seq, heads, head_dim>(x) brings the four dimensions into this order
// [batch, heads, seq, head_dim], as PyTorch takes it, would attend over the heads.
#include <weft/weft.hpp>
using namespace weft;

using in_order = tensor<float, dims<batch, seq, heads, head_dim>>;
using as_in_torch = tensor<float, dims<batch, heads, seq, head_dim>>;

#ifdef WRONG
#if WRONG == 1
auto program(const as_in_torch& x) { return attention(x, x, x); }
#elif WRONG == 2
auto program(const in_order& q, const as_in_torch& x) { return attention(q, x, x); }
#elif WRONG == 3
auto program(const in_order& q, const as_in_torch& v) { return attention(q, q, v); }
#elif WRONG == 4
auto program(const tensor<float, dims<seq, batch, heads, head_dim>>& x) { return attention(x, x, x); }
#endif
#else
auto program(const as_in_torch& x) {
  const auto y = permute<batch, seq, heads, head_dim>(x);
  return attention(y, y, y);
}
#endif
