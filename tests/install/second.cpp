// The library's second appearance in the program: no symbol may be there twice.
#include <weft/weft.hpp>

int second_unit() {
  int ranks = 0;
  weft::launch<weft::strategy<weft::mesh<weft::dp>>>({.dp = 2}, [&](weft::context& ctx) {
    if (ctx.is_first()) ranks = ctx.size();
  });
  return ranks;
}
