// expect: weft: a degree doesn't scale: sums over an axis are the business of types, partial<axis> and all_reduce<axis>, and losses are means of global extents; .here() takes the number, where it is meant
#include <weft/weft.hpp>
using namespace weft;

using halves = tensor<float, dims<seq>, shard<seq, cp>>;

auto program(context& ctx, const halves& x) {
#ifdef WRONG
#if WRONG == 1
  return sum(x) * ctx.degree<cp>();
#elif WRONG == 2
  return mean(x) / ctx.degree<cp>();
#elif WRONG == 3
  return double(ctx.degree<cp>()) * sum(x);
#elif WRONG == 4
  return (1.0 / ctx.size()) * sum(x);
#elif WRONG == 5
  const float ranks = ctx.degree<cp>();
  return ranks * x;
#elif WRONG == 6
  return scale(x, ctx.size());
#elif WRONG == 7
  double factor = 1;
  factor *= ctx.size();
  return scale(x, factor);
#endif
#else
  std::int64_t share = x.global_extent<seq>();
  share /= ctx.degree<cp>();
  return mean(x) + 0 * sum(zeros<halves>(ctx, {share * ctx.degree<cp>()}));
#endif
}
