// expect: weft: rope(x, table) takes x as [batch, seq, heads, head_dim]: permute<batch, seq, heads, head_dim>(x) brings the four dimensions into this order
// Each head would be turned as if it were a position.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, heads, seq, head_dim>>& x, const rope_table& table) {
#ifdef WRONG
  return rope(x, table);
#else
  return rope(permute<batch, seq, heads, head_dim>(x), table);
#endif
}
