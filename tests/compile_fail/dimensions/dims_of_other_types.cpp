// expect: weft:
// expect 1: weft: dims<...> lists dimensions, as batch or hidden, or extent<hidden, 64>, and nothing else
// expect 2: weft: a dimension's tag has a name: struct pixel : weft::dim_tag { static constexpr std::string_view name =
// expect 3: weft: a tag is a dimension or a mesh axis, and this one is both: declare two
// expect 4: weft: dims<...> lists dimensions
#include <weft/weft.hpp>
using namespace weft;

struct pixel : weft::dim_tag {
#if !defined(WRONG) || WRONG != 2
  static constexpr std::string_view name = "pixel";
#endif
};
struct rows : weft::dim_tag, weft::axis_tag {
  static constexpr std::string_view name = "rows";
};

void program(context& ctx) {
#ifdef WRONG
#if WRONG == 1
  zeros<tensor<float, dims<int>>>(ctx, {2});
#elif WRONG == 2
  zeros<tensor<float, dims<pixel>>>(ctx, {2});
#elif WRONG == 3
  zeros<tensor<float, dims<rows>, shard<rows, rows>>>(ctx, {2});
#elif WRONG == 4
  zeros<tensor<float, dims<batch, tp>>>(ctx, {2, 2});
#endif
#else
  zeros<tensor<float, dims<pixel, batch>, shard<pixel, dp>>>(ctx, {2, 2});
#endif
}
