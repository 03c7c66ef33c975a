// expect: weft:
// expect 1: weft: mesh<...> lists mesh axes, as dp or tp, or axis<tp, 4>, and no dimensions: a dimension is sharded over an axis, by shard<batch, dp>
// expect 2: weft: a mesh axis's tag has a name: struct rows : weft::axis_tag { static constexpr std::string_view name =
#include <weft/weft.hpp>
using namespace weft;

struct rows : weft::axis_tag {
#if !defined(WRONG) || WRONG != 2
  static constexpr std::string_view name = "rows";
#endif
};

void program() {
#ifdef WRONG
#if WRONG == 1
  launch<strategy<mesh<dp, batch>>>({}, [](context&) {});
#elif WRONG == 2
  launch<strategy<mesh<rows>>>({}, [](context&) {});
#endif
#else
  launch<strategy<mesh<dp, rows>>>(degrees{.dp = 2}.with<rows>(2), [](context&) {});
#endif
}
