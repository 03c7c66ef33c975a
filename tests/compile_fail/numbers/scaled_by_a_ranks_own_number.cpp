// expect: weft: this number is a rank's own, and others may have another: a tensor is scaled, seeded and sized by numbers that all ranks share, global_extent<dim>() of a tensor say; .here() takes it, where this rank's own is meant
// A rank's number, or what its share counts, where all ranks have to have the same.
#include <weft/weft.hpp>
using namespace weft;

using halves = tensor<float, dims<seq>, shard<seq, cp>>;
using whole = tensor<float, dims<seq>>;

auto program(context& ctx, const halves& x, whole& w, adamw_state& state) {
#ifdef WRONG
#if WRONG == 1
  return sum(x) * double(x.local_extent<seq>());
#elif WRONG == 2
  return sum(x) / x.local_elements();
#elif WRONG == 3
  return (1.0 + ctx.index<cp>()) * sum(x);
#elif WRONG == 4
  return zeros<whole>(ctx, {x.local_extent<seq>()});
#elif WRONG == 5
  const double mine = ctx.rank();
  return scale(x, mine);
#elif WRONG == 6
  return adamw_update(w, w.grad(), state, {.lr = 1e-3 * ctx.rank()});
#elif WRONG == 7
  return full<whole>(ctx, {4}, -ctx.rank());
#elif WRONG == 8
  return dropout(x, 0.1, ctx.rank());
#elif WRONG == 9
  int seed = 1;
  seed += ctx.rank();
  return dropout(x, 0.1, seed);
#endif
#else
  if (ctx.rank() == 0 && ctx.index<cp>() < ctx.degree<cp>()) adamw_update(w, w.grad(), state, {.lr = 1e-3});
  const auto loss = sum(x) * (1.0 / double(x.global_extent<seq>()));
  return loss + 0 * sum(zeros<halves>(ctx, {4 * ctx.degree<cp>()}));
#endif
}
