// expect: weft: rope(x, table) doesn't find its dimensions in x, [batch, seq, heads, head_dim]: name x's own, rope<seq, head_dim>(x, table), or rename<from, to>(x)
// shows: no_dimension<weft::head_dim>
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, seq, heads, hidden>>& x, const rope_table& table) {
#ifdef WRONG
  return rope(x, table);
#else
  return rope<seq, hidden>(x, table);
#endif
}
